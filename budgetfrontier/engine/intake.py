"""Admission: from what a caller gives to a pending record, once per canonical form.

Work is done by the batch: fingerprints are looked up and stored in key order, pending records likewise, and each queue
is told once. A known authority with a plain path skips the URL parser: the same bytes come out, several times sooner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import xxhash

from budgetfrontier import uris
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import Admission, CrawlUri, QueueRecord, Tally
from budgetfrontier.settings import policies
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store import keys
from budgetfrontier.store.records import encode, encode_uri

AUTHORITIES = 1 << 16  # kept in memory at the most
MAX_RECORD = 1 << 20  # bytes of one URI with all it carries

# What the URL parser and the canonical form leave as it is. A segment that starts with a dot is not plain.
_PLAIN = re.compile(r"(?:/(?!\.)[A-Za-z0-9_~.\-]*)+\Z").match
_PLAIN_QUERY = re.compile(r"((?:/(?!\.)[A-Za-z0-9_~.\-]*)+)\?([A-Za-z0-9_~.\-=&]+)\Z").match


class Known(msgspec.Struct, gc=False):
    """An authority that was parsed before: its canonical form and hash, and its queue when that is always the same."""

    canonical: str
    hash: bytes
    queue: str | None


class Candidate(NamedTuple):
    """A URI that may be admitted."""

    fingerprint: bytes | None
    queue: str
    url: str
    uri: CrawlUri | None
    """None for a plain string."""
    cost: int
    value: bytes
    settings: QueueSettings


class Intake:
    """Admits URIs to the queues of a kernel. Cost per URI: one look-up and, when new, three puts."""

    def __init__(self, kernel: Kernel, suffix_list: str | None) -> None:
        frontier = kernel.settings.frontier
        self._kernel = kernel
        self._assign = policies.assignment(frontier, suffix_list)
        self._by_authority = bool(getattr(self._assign, "by_authority", False))
        self._canonical = policies.canonicalization(frontier)
        self._known: dict[str, Known] = {}
        self.canonicalizer_id: str = self._canonical.id

    # -- one URI

    def prepare(self, given: object, via: CrawlUri | None) -> Candidate:
        """What `given` would be admitted as. Raises InvalidUrl, and nothing else whatever it is given."""
        if isinstance(given, str):
            return self._prepare(given, None, via)
        if isinstance(given, CrawlUri):
            return self._prepare(given.url, given, via)
        raise InvalidUrl("type", f"{type(given).__name__} is no URI")

    def _prepare(self, given: str, uri: CrawlUri | None, via: CrawlUri | None) -> Candidate:
        url, fingerprint, queue = self._address(given, uri)
        kernel = self._kernel
        if via is not None:
            if uri is None:
                uri = CrawlUri(url, via=via.url, hops=via.hops + "L")
            else:
                uri = msgspec.structs.replace(uri, via=uri.via or via.url, hops=uri.hops or via.hops + "L")
        if uri is None:
            if queue is None:
                queue = self._queue_key(CrawlUri(url))
            value = keys.FRESH + encode((url,))
        else:
            value = _checked(uri, url)
            queue = uri.queue if uri.queue is not None else queue or self._queue_key(_renamed(uri, url))
            if not queue or len(queue.encode("utf-8", "replace")) > keys.MAX_QUEUE_KEY or "\0" in queue:
                raise InvalidUrl("queue", "a queue key has 1 to 255 bytes")
            try:
                queue.encode()
            except UnicodeEncodeError:
                raise InvalidUrl("queue", "a queue key is text") from None
        settings = kernel.settings_for(url, queue)
        return Candidate(fingerprint, queue, url, uri, self._cost(url, uri, settings), value, settings)

    def _cost(self, url: str, uri: CrawlUri | None, settings: QueueSettings) -> int:
        if uri is not None and uri.cost is not None:
            cost = uri.cost
        else:
            policy = self._kernel.cost_policy(settings)
            constant = getattr(policy, "constant", None)
            if constant is not None:
                return int(constant)
            cost = int(policy(CrawlUri(url) if uri is None else _renamed(uri, url)))
        return min(max(cost, 0), keys.MAX_COST)

    def _address(self, given: str, uri: CrawlUri | None) -> tuple[str, bytes | None, str | None]:
        """The normalized URL, its fingerprint (None with `force`), and its queue if the authority tells."""
        if uri is not None and (uri.force or uri.body or uri.method != "GET"):
            url = uris.parse(given)
            if uri.force:
                return url, None, None
            return url, uris.fingerprint(self._canonical(url), uri.method, uri.body), None
        slash = given.find("/", 8)
        known = self._known.get(given[:slash]) if slash > 0 else None
        if known is not None:
            rest = given[slash:]
            if _PLAIN(rest) and len(given) < uris.MAX_LENGTH:
                return given, known.hash + xxhash.xxh3_128_digest((known.canonical + rest).encode())[:12], known.queue
            plain = _PLAIN_QUERY(rest)
            if plain and len(given) < uris.MAX_LENGTH:
                canonical = known.canonical + plain[1] + self._canonical.query(plain[2])
                return given, known.hash + xxhash.xxh3_128_digest(canonical.encode())[:12], known.queue
        return self._parse(given)

    def _parse(self, given: str) -> tuple[str, bytes, str | None]:
        url = uris.parse(given)
        canonical = self._canonical(url)
        fingerprint = uris.fingerprint(canonical)
        prefix = uris.split(url)[0]
        queue = self._queue_key(CrawlUri(url)) if self._by_authority else None
        if hasattr(self._canonical, "authority") and xxhash.xxh3_128_digest(canonical.encode())[:12] == fingerprint[4:]:
            if len(self._known) >= AUTHORITIES:
                self._known.clear()
            self._known[prefix] = Known(self._canonical.authority(prefix), fingerprint[:4], queue)
        return url, fingerprint, queue

    def _queue_key(self, uri: CrawlUri) -> str:
        key = self._assign(uri)
        if not isinstance(key, str) or not 0 < len(key.encode("utf-8", "replace")) <= keys.MAX_QUEUE_KEY:
            raise InvalidUrl("queue", "the queue assignment policy gave no key of 1 to 255 bytes")
        return key

    # -- a batch

    def take(self, batch: Iterable[object], tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch, in order; count what became of each into `tally`."""
        duplicates = tally.duplicate
        frontier = self._kernel.settings.frontier
        if frontier.max_queued or frontier.max_queue_size or not self._kernel.trivial:
            for given in batch:  # each URI may change what the next one meets
                self._admit(self._candidates((given,), tally, via), tally, now)
        else:
            self._admit(self._candidates(batch, tally, via), tally, now)
        self._kernel.counters.duplicates += tally.duplicate - duplicates

    def take_one(self, given: object, now: float, via: CrawlUri | None = None) -> tuple[Admission, str]:
        """Admit one URI: what became of it, and why when it is INVALID."""
        tally = Tally()
        self.take((given,), tally, now, via)
        if tally.added:
            return Admission.ADDED, ""
        if tally.duplicate:
            return Admission.DUPLICATE, ""
        if tally.full:
            return Admission.FULL, ""
        return Admission.INVALID, next(iter(tally.reasons))

    def _candidates(self, batch: Iterable[object], tally: Tally, via: CrawlUri | None) -> list[Candidate]:
        candidates = []
        plain = via is None and self._kernel.trivial
        settings = self._kernel.base
        cost = getattr(self._kernel.cost_policy(settings), "constant", None) if plain else None
        known, digest, fresh = self._known, xxhash.xxh3_128_digest, keys.FRESH
        longest = uris.MAX_LENGTH
        for given in batch:
            # The common case of `prepare`, without its questions: a string whose authority is known.
            if cost is not None and type(given) is str and len(given) < longest:
                slash = given.find("/", 8)
                authority = known.get(given[:slash])
                if authority is not None and authority.queue is not None:
                    rest = given[slash:]
                    if _PLAIN(rest):
                        canonical = authority.canonical + rest
                    else:
                        match = _PLAIN_QUERY(rest)
                        canonical = (
                            authority.canonical + match[1] + self._canonical.query(match[2]) if match else ""
                        )
                    if canonical:
                        fingerprint = authority.hash + digest(canonical.encode())[:12]
                        value = fresh + encode((given,))
                        candidates.append(
                            Candidate(fingerprint, authority.queue, given, None, cost, value, settings)
                        )
                        continue
            try:
                candidates.append(self.prepare(given, via))
            except InvalidUrl as e:
                tally.refuse(e.reason)
        return candidates

    def _admit(self, candidates: list[Candidate], tally: Tally, now: float) -> None:
        kernel = self._kernel
        txn, seen = kernel.env.txn, kernel.env.db[keys.SEEN]
        if candidates and self._is_full(candidates[0]):  # limits are in force: candidates come one by one
            known = candidates[0].fingerprint is not None and txn.get(candidates[0].fingerprint, db=seen) is not None
            tally.duplicate += known
            tally.full += not known
            return
        keyed = sorted((c.fingerprint, i) for i, c in enumerate(candidates) if c.fingerprint is not None)
        put = txn.cursor(seen).put
        old = {i for fingerprint, i in keyed if not put(fingerprint, b"", overwrite=False)}
        tally.duplicate += len(old)
        tally.added += len(candidates) - len(old)
        if len(old) < len(candidates):
            kernel.counters.scheduled += len(candidates) - len(old)
            self._place([c for i, c in enumerate(candidates) if i not in old] if old else candidates, now)

    def _is_full(self, candidate: Candidate) -> bool:
        kernel = self._kernel
        most, longest = kernel.settings.frontier.max_queued, candidate.settings.max_queue_size
        if most and kernel.counters.queued >= most:
            return True
        if longest:
            queue = kernel.queues.find(candidate.queue)
            return queue is not None and queue.queued >= longest
        return False

    def _place(self, admitted: list[Candidate], now: float) -> None:
        kernel = self._kernel
        counters, find = kernel.counters, kernel.queues.find_or_create
        touched: dict[str, list[Any]] = {}  # queue key -> record, count, last candidate
        records = []
        pack, ordinal = keys.pending.pack, counters.ordinal
        for candidate in admitted:
            _, name, _, uri, cost, value, settings = candidate
            directive, priority = 3, 0x80000000
            if uri is not None:
                directive, priority = int(uri.directive), keys.invert_priority(uri.priority)
                if uri.not_before is not None and uri.not_before > now:
                    counters.ordinal = ordinal
                    place = keys.place.pack(directive, priority, cost, 0)
                    kernel.later(find(name), place, value, uri.not_before)
                    ordinal = counters.ordinal
                    continue
            entry = touched.get(name)
            if entry is None:
                touched[name] = entry = [find(name), 0, candidate]
            ordinal += 1
            entry[1] += 1
            entry[2] = candidate
            arrival = keys.MAX_ORDINAL - ordinal if settings.lifo else ordinal
            records.append((pack(entry[0].id, directive, priority, cost, arrival), value))
        counters.ordinal = ordinal
        records.sort()
        kernel.env.pending.putmulti(records)
        for queue, count, candidate in touched.values():
            self._arrived(queue, count, candidate, now)

    def _arrived(self, queue: QueueRecord, count: int, last: Candidate, now: float) -> None:
        kernel = self._kernel
        queue.last_enqueued = last.url
        if queue.revision != kernel.counters.settings_revision or not kernel.fixed_precedence:
            kernel.take_budgets(queue, CrawlUri(last.url) if last.uri is None else _renamed(last.uri, last.url))
        kernel.arrived(queue, count, last.settings, now)


def _renamed(uri: CrawlUri, url: str) -> CrawlUri:
    return uri if uri.url == url else msgspec.structs.replace(uri, url=url)


def _checked(uri: CrawlUri, url: str) -> bytes:
    """The record of a CrawlUri; what cannot be stored is INVALID, for one URI must not poison its batch."""
    if uri.via is not None and type(uri.via) is not str or type(uri.hops) is not str:
        raise InvalidUrl("type", "via and hops are text")
    if not all(isinstance(n, int) for n in (uri.priority, uri.directive, uri.cost or 0)) or not 0 <= uri.directive <= 3:
        raise InvalidUrl("type", "priority, directive and cost are whole numbers")
    if uri.not_before is not None and not isinstance(uri.not_before, int | float):
        raise InvalidUrl("type", "not_before is a time in epoch seconds")
    try:
        value = encode_uri(uri, url)
        msgspec.msgpack.decode(value[4:], type=CrawlUri)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise InvalidUrl("type", f"cannot be stored: {e}") from None
    if len(value) > MAX_RECORD:
        raise InvalidUrl("too-large", f"{len(value)} bytes with all it carries; at most {MAX_RECORD}")
    return value
