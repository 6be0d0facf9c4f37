"""Admission: from what a caller gives to a pending record, once per canonical form.

Work is done by the batch: fingerprints are looked up and stored in key order, pending records likewise, and each queue
is told once. A known authority with a plain path skips the URL parser: the same bytes come out, several times sooner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import xxhash

from budgetfrontier import uris
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.queue import INACTIVE, READY, SNOOZED
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.model import Admission, CrawlUri, Tally
from budgetfrontier.settings import policies
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store import keys
from budgetfrontier.store.records import encode, encode_uri

AUTHORITIES = 1 << 16  # kept in memory at the most
MAX_RECORD = 1 << 20  # bytes of one URI with all it carries
MAX_TIME = 1e300  # epoch seconds; not_before may be a whole number that no float can hold

# What the URL parser and the canonical form leave as it is, unless a segment starts with a dot.
_PLAIN = re.compile(r"(/[A-Za-z0-9_~./\-]*)(?:\?([A-Za-z0-9_~.\-=&]+))?\Z").match

Known = tuple[str, bytes, str]
"""An authority that was parsed before: its canonical form, the hash of that, and its queue."""

Candidate = tuple[bytes | None, str, str, CrawlUri | None, int, bytes | None, QueueSettings]
"""A URI that may be admitted: fingerprint, queue, URL, what was given (None for a string), cost, record, settings.

The record of a string is made when it is needed: every other link is a duplicate. A tuple, for there are many.
"""


class Intake:
    """Admits URIs to the queues of a kernel. Cost per URI: one look-up and, when new, three puts."""

    def __init__(self, kernel: Kernel, suffix_list: str | None) -> None:
        frontier = kernel.force.frontier
        self._kernel = kernel
        self._assign = policies.assignment(frontier, suffix_list)
        self._by_authority = bool(getattr(self._assign, "by_authority", False))
        self._canonical: Any = policies.canonicalization(frontier)
        self._by_parts = self._by_authority and hasattr(self._canonical, "authority")
        self._known: dict[str, Known] = {}
        self.canonicalizer_id = policies.canonicalizer_id(frontier)

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
            value = None
        else:
            value = _checked(uri, url)
            queue = uri.queue if uri.queue is not None else queue or self._queue_key(_renamed(uri, url))
            if uri.queue is not None:
                _check_key(queue)
        settings = kernel.force.for_uri(url, queue)
        return fingerprint, queue, url, uri, self._cost(url, uri, settings), value, settings

    def _cost(self, url: str, uri: CrawlUri | None, settings: QueueSettings) -> int:
        if uri is not None and uri.cost is not None:
            cost = uri.cost
        else:
            policy = self._kernel.force.cost_policy(settings)
            constant = getattr(policy, "constant", None)
            if constant is not None:
                return int(constant)
            found: object = policy(CrawlUri(url) if uri is None else _renamed(uri, url))
            if not isinstance(found, int | float):
                policy_name = settings.cost_policy
                raise PolicyError(f"the cost policy {policy_name} gave {found!r} for {url}; a cost is a whole number")
            cost = int(found)
        return min(max(cost, 0), keys.MAX_COST)

    def _address(self, given: str, uri: CrawlUri | None) -> tuple[str, bytes | None, str | None]:
        """The normalized URL, its fingerprint (None with `force`), and its queue if the authority tells."""
        if uri is not None and (uri.force or uri.body or uri.method != "GET"):
            url = uris.parse(given)
            if uri.force:
                return url, None, None
            return url, uris.fingerprint(self._form(url), uri.method, uri.body), None
        return self._parse(given)

    def _parse(self, given: str) -> tuple[str, bytes, str | None]:
        url = uris.parse(given)
        if not self._by_parts:
            queue = self._queue_key(CrawlUri(url)) if self._by_authority else None
            return url, uris.fingerprint(self._form(url)), queue
        prefix, path, query = uris.split(url)
        known = self._known.get(prefix)
        if known is None:
            place = self._canonical.authority(prefix)
            known = place, uris.authority_hash(place), self._queue_key(CrawlUri(url))
            if len(prefix) < 512:
                if len(self._known) >= AUTHORITIES:
                    self._known.clear()
                self._known[prefix] = known
        place, start, queue = known
        canonical = place + self._canonical.path(path) + self._canonical.query(query)
        return url, start + xxhash.xxh3_128_digest(canonical.encode())[:12], queue

    def _form(self, url: str) -> str:
        form: object = self._canonical(url)
        if not isinstance(form, str) or form.find("/", 8) < 0:
            raise PolicyError(f"the canonicalization policy gave {form!r} for {url}; it must give a URL with a path")
        return form

    def _queue_key(self, uri: CrawlUri) -> str:
        key: object = self._assign(uri)
        return _check_key(key)

    # -- a batch

    def take(self, batch: Iterable[object], tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch, in order; count what became of each into `tally`."""
        duplicates = tally.duplicate
        frontier = self._kernel.force.frontier
        if frontier.max_queued or frontier.max_queue_size or not self._kernel.force.trivial:
            for given in batch:  # each URI may change what the next one meets
                self._admit(self._candidates((given,), tally, via), tally, now)
        else:
            self._admit(self._candidates(batch, tally, via), tally, now)
        self._kernel.counters.duplicates += tally.duplicate - duplicates

    def take_one(self, given: object, now: float) -> Admission:
        """Admit one URI: what became of it."""
        tally = Tally()
        self.take((given,), tally, now)
        if tally.added:
            return Admission.ADDED
        if tally.duplicate:
            return Admission.DUPLICATE
        return Admission.FULL if tally.full else Admission.INVALID

    def _candidates(self, batch: Iterable[object], tally: Tally, via: CrawlUri | None) -> list[Candidate]:
        candidates: list[Candidate] = []
        settings = self._kernel.force.base
        known = self._known.get
        plain, digest, query = _PLAIN, xxhash.xxh3_128_digest, getattr(self._canonical, "query", str)
        longest = uris.MAX_LENGTH
        cost = None
        if via is None and self._kernel.force.trivial and self._by_authority:
            cost = getattr(self._kernel.force.cost_policy(settings), "constant", None)
        for given in batch:
            # The common case of `prepare`, without its questions: a string with a known authority and a plain path.
            if cost is not None and type(given) is str and len(given) < longest:
                slash = given.find("/", 8)
                authority = known(given[:slash])
                if authority is not None:
                    rest = given[slash:]
                    match = plain(rest)
                    if match is not None and "/." not in rest:
                        prefix, start, queue = authority
                        canonical = prefix + (rest if match.lastindex == 1 else match[1] + query(match[2]))
                        fingerprint = start + digest(canonical.encode())[:12]
                        candidates.append((fingerprint, queue, given, None, cost, None, settings))
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
            fingerprint = candidates[0][0]
            known = fingerprint is not None and txn.get(fingerprint, db=seen) is not None
            tally.duplicate += known
            tally.full += not known
            return
        # Each form is stored once, in key order; the first of a form in the batch is the one that counts.
        first: dict[Any, int]
        first = {c[0]: i for i, c in zip(range(len(candidates) - 1, -1, -1), reversed(candidates), strict=True)}
        forced = [i for i, c in enumerate(candidates) if c[0] is None] if first.pop(None, None) is not None else []
        put = txn.cursor(seen).put
        admitted = [first[key] for key in sorted(first) if put(key, b"", True, False)]
        admitted += forced
        tally.added += len(admitted)
        tally.duplicate += len(candidates) - len(admitted)
        if admitted:
            admitted.sort()
            kernel.counters.scheduled += len(admitted)
            self._place([candidates[i] for i in admitted], now)

    def _is_full(self, candidate: Candidate) -> bool:
        kernel = self._kernel
        most, longest = kernel.force.frontier.max_queued, candidate[6].max_queue_size
        if most and kernel.counters.queued >= most:
            return True
        if longest:
            queue = kernel.queues.find(candidate[1])
            return queue is not None and queue.queued >= longest
        return False

    def _place(self, admitted: list[Candidate], now: float) -> None:
        kernel = self._kernel
        counters, find, fresh = kernel.counters, kernel.queues.find_or_create, keys.FRESH
        touched: dict[str, list[Any]] = {}  # queue key -> record, count, last candidate
        records = []
        pack, ordinal = keys.pending.pack, counters.ordinal
        for candidate in admitted:
            _, name, url, uri, cost, value, settings = candidate
            directive, priority = 3, keys.PRIORITY_ZERO
            if value is None:
                value = fresh + encode((url,))
            elif uri is not None:
                directive, priority = int(uri.directive), keys.invert_priority(uri.priority)
                if uri.not_before is not None and uri.not_before > now:
                    counters.ordinal = ordinal
                    place = keys.place.pack(directive, priority, cost, 0)
                    kernel.later.add(find(name), place, value, uri.not_before, kernel.next_ordinal())
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
        self._arrive(list(touched.values()), now)

    def _arrive(self, touched: list[Any], now: float) -> None:
        """Tell each queue once what was placed on it."""
        kernel = self._kernel
        revision, fixed = kernel.counters.settings_revision, kernel.force.fixed_precedence
        dirty = kernel.queues.dirty
        for queue, count, last in touched:
            url, uri = last[2], last[3]
            queue.last_enqueued = url
            if queue.revision != revision or not fixed:
                kernel.take_budgets(queue, CrawlUri(url) if uri is None else _renamed(uri, url))
            state = queue.state
            if state is INACTIVE or state is READY or state is SNOOZED:  # the common case of `arrived`
                queue.queued += count
                queue.enqueued += count
                kernel.counters.queued += count
                dirty.add(queue.id)
            else:
                kernel.arrived(queue, count, last[6], now)


def _check_key(key: object) -> str:
    """The key of a queue, from a caller or a policy. Raises InvalidUrl."""
    try:
        if isinstance(key, str) and 0 < len(key.encode()) <= keys.MAX_QUEUE_KEY and "\0" not in key:
            return key
    except UnicodeEncodeError:
        pass
    raise InvalidUrl("queue", "a queue key is text of 1 to 255 bytes")


def _renamed(uri: CrawlUri, url: str) -> CrawlUri:
    return uri if uri.url == url else msgspec.structs.replace(uri, url=url)


def _checked(uri: CrawlUri, url: str) -> bytes:
    """The record of a CrawlUri; what cannot be stored is INVALID, for one URI must not poison its batch."""
    numbers: list[object] = [uri.priority, uri.directive, 0 if uri.cost is None else uri.cost]
    if not all(isinstance(n, int) for n in numbers) or not 0 <= uri.directive <= 3:
        raise InvalidUrl("type", "priority, directive and cost are whole numbers")
    when: object = uri.not_before
    if when is not None and not (isinstance(when, int | float) and abs(when) <= MAX_TIME):
        raise InvalidUrl("type", "not_before is a time in epoch seconds")
    try:
        value = encode_uri(uri, url)
        msgspec.msgpack.decode(value[4:], type=CrawlUri)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise InvalidUrl("type", f"cannot be stored: {e}") from None
    if len(value) > MAX_RECORD:
        raise InvalidUrl("too-large", f"{len(value)} bytes with all it carries; at most {MAX_RECORD}")
    return value
