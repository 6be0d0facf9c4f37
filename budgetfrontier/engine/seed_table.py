"""The owner of the list of seeds: the scheduled ones, and the fate of each."""

from __future__ import annotations

from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules.seeds import SeedFate, is_seed, origin_of
from budgetfrontier.rules.uri_order import NORMAL
from budgetfrontier.storage import keys, seed_list
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.seed_list import SeedHosts, SeedRow
from budgetfrontier.storage.uri_values import decode_uri


class SeedTable:
    """The list of seeds. Nothing of a seed is in memory; O(log n) each.

    Callers check `has_any` and the directive first, so that links cost nothing here.
    """

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env, self._counters = env, counters
        self.hosts = SeedHosts(env.view, lambda: counters.seeds)

    def has(self, url: str) -> bool:
        """Return whether a URL, as it is written, is in the list."""
        try:
            return seed_list.find(self._env.txn, self._env.db, uris.parse(url)) is not None
        except InvalidUrl:
            return False

    def scheduled(self, uri: CrawlUri, queue: str, now: float, fate: SeedFate, reason: str = "") -> None:
        """List a seed that was scheduled, or was found to be known; note that the seed of `via` redirects to it."""
        url = uris.parse(uri.url)
        origin, via = origin_of(uri), (uri.via or "") if uri.hops else ""
        found = seed_list.find(self._env.txn, self._env.db, url)
        if found is None:
            self._counters.seeds += 1
            key = keys.u64.pack(self._counters.seeds)
            row = SeedRow(url, queue, origin, uri.source or "", via, int(now), fate, reason)
            self._put(key, None, row)
            for name, is_position in seed_list.keys_of(row, uris.host(url)):
                self._env.txn.put(name, key if is_position else b"", db=self._env.db[keys.SEED_KEYS])
        elif fate is not SeedFate.KNOWN:
            key, row = found
            before, row.fate, row.queue, row.reason = row.fate, fate, queue or row.queue, reason
            self._put(key, before, row)
        if via and (source := seed_list.find(self._env.txn, self._env.db, via)) and source[1].redirect != url:
            source[1].redirect = url
            self._put(source[0], source[1].fate, source[1])

    def _found(self, uri: CrawlUri) -> tuple[bytes, SeedRow] | None:
        return seed_list.find(self._env.txn, self._env.db, uri.url) if self._counters.seeds and is_seed(uri) else None

    def placed(self, uri: CrawlUri, queue: str) -> None:
        """Note that a URI is on another queue, if it is a seed."""
        if (found := self._found(uri)) is not None:
            key, row = found
            row.queue = queue
            self._put(key, row.fate, row)

    def became(self, uri: CrawlUri, fate: SeedFate, reason: str, now: float) -> None:
        """Note the fate of a URI, if it is a seed."""
        if (found := self._found(uri)) is not None:
            key, row = found
            reason = reason.encode("utf-8", "replace").decode()
            before, row.fate, row.reason = row.fate, fate, reason or row.reason
            row.ended = 0 if fate is SeedFate.WAITING else int(now)
            self._put(key, before, row)

    def moved(self, directive: int, value: bytes, queue: str, fate: SeedFate, now: float, reason: str = "") -> None:
        """Do `became` for the URI of a pending value."""
        if directive != NORMAL and self._counters.seeds:
            uri = replace(decode_uri(value, queue), directive=Directive(directive))
            self.became(uri, fate, reason, now)

    def _put(self, key: bytes, before: SeedFate | None, row: SeedRow) -> None:
        fates = self._counters.seed_fates
        if before is not None:
            fates[before] -= 1
        fates[row.fate] = fates.get(row.fate, 0) + 1
        value = encode(row)
        self._env.txn.put(key, value, db=self._env.db[keys.SEEDS])
        self._env.wrote(len(value))
