"""The list of seeds: the table `seeds` by order of arrival, and `seed_keys`, which finds them by URL and by host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import xxhash

from budgetfrontier.core.model import CrawlUri, Number
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.rules.seeds import MOST_REDIRECTS, SeedFate, SeedOrigin
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import decoder
from budgetfrontier.storage.view import View

_URL, _HOST = b"u", b"h"
_LONGEST_KEY = 511  # of LMDB


class SeedRow(msgspec.Struct, array_like=True, gc=False):
    """A seed and its fate. Times are whole seconds."""

    url: str
    queue: str
    """The key of its queue; "" if it was known before, on whichever queue."""
    origin: SeedOrigin
    label: str = ""
    """Its source tag."""
    via: str = ""
    """The seed that redirects to it."""
    added: Number = 0
    fate: SeedFate = SeedFate.WAITING
    reason: str = ""
    """The reason of its last attempt, such as "status 200"."""
    ended: Number = 0
    redirect: str = ""
    """The URL that it redirects to."""


decode_seed = decoder(SeedRow)


class ListedSeed(msgspec.Struct):
    """A seed as of a snapshot: its row, and its state by other tables."""

    position: int
    row: SeedRow
    state: QueueState | None = None
    """The state of its queue, if that is known."""
    leased: bool = False
    end: SeedRow | None = None
    """The last seed that its redirects lead to, None if it has none."""
    is_cut: bool = False
    """Whether the targets of further redirects would be no seeds, because there are too many."""


def url_key(url: str) -> bytes:
    """Return the key in `seed_keys` under which the position of a seed is."""
    return _URL + xxhash.xxh3_128_digest(url.encode("utf-8", "surrogatepass"))


def host_key(host: str) -> bytes:
    """Return the key in `seed_keys` of a host: its labels in reverse, so that a domain's hosts are neighbours."""
    return (_HOST + ",".join(reversed(host.split("."))).encode() + b",")[:_LONGEST_KEY]


def keys_of(row: SeedRow, host: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the keys of a seed in `seed_keys`, and whether the value is its position.

    The hosts of seeds in the settings are left out: these count as long as the settings name them.
    """
    yield url_key(row.url), True
    if row.origin is not SeedOrigin.SCHEDULED:
        yield host_key(host), False


def find(txn: keys.Txn, db: keys.Tables, url: str) -> tuple[bytes, SeedRow] | None:
    """Return the row of a seed with its key, None if the URL is none."""
    at = txn.get(url_key(url), db=db[keys.SEED_KEYS])
    value = None if at is None else txn.get(at, db=db[keys.SEEDS])
    return None if at is None or value is None else (bytes(at), decode_seed(value))


def unlisted(view: View, urls: Iterable[str]) -> set[str]:
    """Return which of some URLs are no seeds of the list. O(log n) each."""
    return {url for url in urls if find(view.txn, view.db, url) is None}


def last_position(view: View) -> int:
    """Return the position of the seed that came last, 0 if there is none."""
    return next((keys.u64.unpack(key)[0] for key, _ in view.newest_items(keys.SEEDS)), 0)


def rows(view: View, after: int = 0) -> Iterator[tuple[int, SeedRow]]:
    """Yield the seeds behind a position, in order, each with its position."""
    for key, value in view.items(keys.SEEDS, keys.u64.pack(after + 1)):
        yield keys.u64.unpack(key)[0], decode_seed(value)


def listed(view: View, after: int = 0) -> Iterator[ListedSeed]:
    """Yield the seeds behind a position, in order, with their states. O(log n) each, and O(leases) once."""
    leased = {lease.uri.url for lease in view.leases()}
    for position, row in rows(view, after):
        waits = row.fate is SeedFate.WAITING
        queue = view.find_queue(row.queue) if waits and row.queue else None
        end, steps = _last(view, row, "redirect")
        is_cut = bool(end.via) and _last(view, end, "via")[1] >= MOST_REDIRECTS
        state = None if queue is None else queue.state
        yield ListedSeed(position, row, state, waits and row.url in leased, end if steps else None, is_cut)


def _last(view: View, row: SeedRow, field: str) -> tuple[SeedRow, int]:
    """Return the last seed that a chain of seeds leads to, by the URL in a field, and how many are before it."""
    steps = 0
    while steps < MOST_REDIRECTS and (url := getattr(row, field)) and (found := find(view.txn, view.db, url)):
        row, steps = found[1], steps + 1
    return row, steps


class SeedHosts:
    """The hosts of the seeds that were imported, or that other seeds redirect to; for the scope. O(log n) each."""

    def __init__(self, view: Callable[[], View], last: Callable[[], int]) -> None:
        self._view, self._last = view, last

    @property
    def last(self) -> int:
        """The position of the last seed: results are valid until it changes."""
        return self._last()

    def has_host(self, bare: str) -> bool:
        """Return whether a host, given without "www.", is that of a seed, with or without it."""
        view = self._view()
        table = view.db[keys.SEED_KEYS]
        return any(view.txn.get(host_key(host), db=table) is not None for host in (bare, f"www.{bare}"))

    def has_domain(self, domain: str, domain_of: Callable[[CrawlUri], Any]) -> bool:
        """Return whether a registered domain is that of a seed. O(1), O(seeds below it) for a public suffix."""
        view = self._view()
        prefix = host_key(domain)
        cursor = view.txn.cursor(view.db[keys.SEED_KEYS])
        for key in cursor.iternext(values=False) if cursor.set_range(prefix) else ():
            if not key.startswith(prefix):
                return False
            host = ".".join(reversed(bytes(key[1:-1]).decode("utf-8", "replace").split(",")))
            if domain_of(CrawlUri(f"http://{host}/")) == domain:
                return True
        return False
