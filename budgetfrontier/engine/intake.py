"""Admission: from what a caller gives to a pending record, once per canonical form.

Work is done by the batch: fingerprints are looked up and stored in key order, pending records likewise, and each queue
is told once. A known authority with a plain path skips the URL parser: the same bytes come out, several times sooner.
A URL that was met a moment ago is known without looking: every page of a site links to the same few.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import xxhash

from budgetfrontier import uris
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.queue import INACTIVE, READY, SNOOZED
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.model import Admission, CrawlUri, QueueRecord, Tally
from budgetfrontier.settings import policies
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store import keys
from budgetfrontier.store.records import (
    LONGEST_SHOWN,
    decode_uri,
    encode,
    encode_found,
    encode_uri,
    encode_url,
    expand,
    plain_start,
    short_url,
    shorten,
)

AUTHORITIES = 1 << 16  # kept in memory at the most
RECENT = 1 << 16  # URLs kept in memory at the most
LONGEST_RECENT = 512  # characters
MAX_HOPS = 1024
MAX_RECORD = 1 << 20  # bytes of one URI with all it carries
MAX_TIME = 1e300  # epoch seconds; not_before may be a whole number that no float can hold

# What the URL parser leaves as it is in paths and queries of http and https, unless a segment starts with a dot.
_UNTOUCHED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~./-?=&:+,!*$@;()[]|^")


class Authority(NamedTuple):
    """Scheme and host as they were written in a URL that was parsed before."""

    canonical: str
    hash: bytes
    queue: str
    mark: bytes | None
    """What the plain values of its URLs begin with; None if its queue's key is not the host."""
    short: str
    """What its URLs begin with in the records of its queue."""


class Special(NamedTuple):
    """A URI that may be admitted, of which there is more to say than its URL."""

    queue: str
    value: bytes
    url: str
    uri: CrawlUri | None
    cost: int
    settings: QueueSettings


Plain = tuple[Authority, str]
"""A URL that may be admitted: its authority, and the rest of it. A tuple, for there are many."""


class Batch(NamedTuple):
    """What of a batch may be new, in order, by fingerprint (with `force`: by a number); the first of a form counts."""

    candidates: dict[Any, Plain | Special]
    forced: list[int]
    invalid: list[Any]


class Intake:
    """Admits URIs to the queues of a kernel. Cost per URI: one look-up and, when new, three puts."""

    def __init__(self, kernel: Kernel, suffix_list: str | None) -> None:
        frontier = kernel.force.frontier
        self._kernel = kernel
        self._assign = policies.assignment(frontier, suffix_list)
        self._by_authority = bool(getattr(self._assign, "by_authority", False))
        self._canonical: Any = policies.canonicalization(frontier)
        self._by_parts = self._by_authority and hasattr(self._canonical, "authority")
        self._known: dict[str, Authority] = {}
        self._recent: set[str] = set()
        plain = _UNTOUCHED & frozenset(getattr(self._canonical, "PLAIN", ""))
        self._plain = "".join(sorted(plain)).encode()
        self.canonicalizer_id = policies.canonicalizer_id(frontier)

    # -- one URI

    def prepare(self, given: object, via: CrawlUri | None) -> tuple[bytes | None, Special]:
        """The fingerprint of `given` (None with `force`), and what it would be admitted as. Raises only InvalidUrl."""
        if isinstance(given, str):
            return self._prepare(given, None, via)
        if isinstance(given, CrawlUri):
            return self._prepare(given.url, given, via)
        raise InvalidUrl("type", f"{type(given).__name__} is no URI")

    def _prepare(self, given: str, uri: CrawlUri | None, via: CrawlUri | None) -> tuple[bytes | None, Special]:
        url, fingerprint, queue = self._address(given, uri)
        if uri is not None:
            if via is not None:
                uri = msgspec.structs.replace(uri, via=uri.via or via.url, hops=uri.hops or _found_at(via))
            _check(uri, url)
            queue = uri.queue if uri.queue is not None else queue or self._queue_key(_renamed(uri, url))
            if uri.queue is not None:
                _check_key(queue)
            value = encode_uri(uri, url, queue)
        elif via is not None:
            uri = CrawlUri(url, via=via.url, hops=_found_at(via))
            queue = queue or self._queue_key(uri)
            value = encode_found(shorten(url, queue), shorten(via.url, queue), uri.hops)
        else:
            queue = queue or self._queue_key(CrawlUri(url))
            value = encode_url(url, queue)
        settings = self._kernel.force.for_uri(url, queue)
        return fingerprint, Special(queue, value, url, uri, self._cost(url, uri, settings), settings)

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
        known = self._known.get(prefix) or self._meet(prefix, url)
        place, start, queue, _, _ = known
        canonical = place + self._canonical.path(path) + self._canonical.query(query)
        return url, start + xxhash.xxh3_128_digest(canonical.encode())[:12], queue

    def _meet(self, prefix: str, url: str) -> Authority:
        """The authority of a URL that was parsed, kept if there is room for it."""
        place, name = self._canonical.authority(prefix), self._queue_key(CrawlUri(url))
        known = Authority(place, uris.authority_hash(place), name, *plain_start(prefix, name))
        if len(prefix) < 512:
            if len(self._known) >= AUTHORITIES:  # the oldest go
                for old in list(islice(self._known, AUTHORITIES // 4)):
                    del self._known[old]
            self._known[prefix] = known
        return known

    def _learn(self, given: str) -> Authority | None:
        """The authority of a plain URL that was not met before; None unless its URL is as the parser writes it."""
        try:
            if uris.parse(given) != given:
                return None
        except InvalidUrl:
            return None
        return self._meet(given[: given.index("/", 8)], given)

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
        batch = list(batch)
        if not batch:
            return
        duplicates = tally.duplicate
        frontier = self._kernel.force.frontier
        if frontier.max_queued or frontier.max_queue_size or not self._kernel.force.trivial:
            for given in batch:  # each URI may change what the next one meets
                self._take([given], tally, now, via)
        else:
            self._take(batch, tally, now, via)
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

    def _take(self, batch: list[Any], tally: Tally, now: float, via: CrawlUri | None) -> None:
        candidates, forced, invalid = found = self._candidates(batch, tally, via)
        if candidates and self._is_full(next(iter(candidates.values()))):  # with limits, candidates come one by one
            known = not forced and self._is_seen(next(iter(candidates)))
            tally.duplicate += known
            tally.full += not known
            return
        self._drop_seen(found)
        tally.added += len(candidates)
        tally.duplicate += len(batch) - len(invalid) - len(candidates)
        self._remember(batch, invalid)
        if candidates:
            self._kernel.counters.scheduled += len(candidates)
            self._place(candidates.values(), via, now)

    def _candidates(self, batch: list[Any], tally: Tally, via: CrawlUri | None) -> Batch:
        """Read a batch; count what is INVALID."""
        candidates: dict[Any, Plain | Special] = {}
        forced: list[int] = []
        invalid: list[Any] = []
        known, recent, digest = self._known.get, self._recent, xxhash.xxh3_128_digest
        simple = self._are_simple()
        plain = simple and self._are_plain(batch)
        query = self._canonical.query if simple else None
        for given in batch:
            if plain or type(given) is str:
                if given in recent:
                    continue
                # The common case of `prepare`, without its questions: a known authority and a plain path.
                slash = given.find("/", 8)
                authority = known(given[:slash]) or (self._learn(given) if plain else None)
                if authority is not None and slash > 0 and (plain or (simple and self._are_plain([given]))):
                    rest = given[slash:]
                    if "?" in rest:
                        path, _, arguments = rest.partition("?")
                        canonical = authority[0] + path + query(arguments)  # type: ignore[misc]
                    else:
                        canonical = authority[0] + rest
                    fingerprint = authority[1] + digest(canonical.encode())[:12]
                    if fingerprint not in candidates:
                        candidates[fingerprint] = authority, rest
                    continue
            try:
                key, special = self.prepare(given, via)
            except InvalidUrl as e:
                tally.refuse(e.reason)
                invalid.append(given)
                continue
            if key is None:
                forced.append(len(candidates))
                candidates[len(candidates)] = special
            else:
                candidates.setdefault(key, special)
        return Batch(candidates, forced, invalid)

    def _are_simple(self) -> bool:
        """Whether strings cost the same, whatever they say, and their authority tells their queue."""
        force = self._kernel.force
        if not (force.trivial and self._by_parts and self._plain):
            return False
        return getattr(force.cost_policy(force.base), "constant", None) is not None

    def _are_plain(self, batch: list[Any]) -> bool:
        """Whether all of a batch are strings that the URL parser leaves as they are, if their authority is known."""
        try:
            text = "\n".join(batch)
        except TypeError:
            return False
        if not text.isascii() or "/." in text or max(map(len, batch)) > uris.MAX_LENGTH:
            return False
        return len(text.encode().translate(None, self._plain)) == len(batch) - 1

    def _remember(self, batch: list[Any], invalid: list[Any]) -> None:
        """Strings that are known from now on, whatever became of them."""
        if len(self._recent) > RECENT:
            self._recent.clear()
        self._recent.update([given for given in batch if type(given) is str and len(given) <= LONGEST_RECENT])
        if invalid:
            self._recent.difference_update(given for given in invalid if type(given) is str)

    def _is_seen(self, fingerprint: bytes) -> bool:
        return self._kernel.env.txn.get(fingerprint, db=self._kernel.env.db[keys.SEEN]) is not None

    def _drop_seen(self, batch: Batch) -> None:
        """Leave the candidates that are new; they are known from now on. Each form is stored once, in key order."""
        candidates = batch.candidates
        forced = set(batch.forced)
        put = self._kernel.env.txn.cursor(self._kernel.env.db[keys.SEEN]).put
        fingerprints = sorted(candidates.keys() - forced) if forced else sorted(candidates)
        for fingerprint in [fingerprint for fingerprint in fingerprints if not put(fingerprint, b"", True, False)]:
            del candidates[fingerprint]

    def _is_full(self, candidate: Plain | Special) -> bool:
        kernel = self._kernel
        if type(candidate) is Special:
            name, settings = candidate.queue, candidate.settings
        else:
            name, settings = candidate[0].queue, kernel.force.base  # type: ignore[union-attr]
        most, longest = kernel.force.frontier.max_queued, settings.max_queue_size
        if most and kernel.counters.queued >= most:
            return True
        if longest:
            queue = kernel.queues.find(name)
            return queue is not None and queue.queued >= longest
        return False

    def _place(self, admitted: Iterable[Any], via: CrawlUri | None, now: float) -> None:
        """Put candidates on their queues in the order of the table, then tell each queue once, in order of arrival."""
        kernel = self._kernel
        counters, base = kernel.counters, kernel.force.base
        ids, cache, find = kernel.queues.ids, kernel.queues.cache, kernel.queues.find_or_create
        groups: dict[str, tuple[int, QueueRecord, list[Any]]] = {}  # queue key -> id, queue, candidates
        for candidate in admitted:
            if type(candidate) is tuple:
                name = candidate[0][2]
            else:
                name = candidate.queue
                if self._set_aside(candidate, now):
                    continue
            group = groups.get(name)
            if group is None:
                queue = cache.get(ids.get(name, 0)) or find(name)
                groups[name] = queue.id, queue, [candidate]
            else:
                group[2].append(candidate)
        cost = min(int(getattr(kernel.force.cost_policy(base), "constant", None) or 0), keys.MAX_COST)
        pack_start, pack_ordinal, fresh = keys.pending_start.pack, keys.u64.pack, keys.FRESH
        flip = keys.MAX_ORDINAL if base.lifo else 0
        hops = "" if via is None else _found_at(via)
        records: list[tuple[bytes, bytes]] = []
        last = kernel.heads.last
        for queue_id, queue, candidates in sorted(groups.values()):
            before = len(records)
            start = pack_start(queue_id, 3, keys.PRIORITY_ZERO, cost)
            found_on = None if via is None else shorten(via.url, queue.queue)
            for candidate in candidates:
                counters.ordinal = ordinal = counters.ordinal + 1
                if type(candidate) is tuple:
                    (_, _, _, mark, short), rest = candidate
                    if found_on is not None:
                        value = encode_found(short + rest, found_on, hops)
                    else:
                        value = fresh + encode((short + rest,)) if mark is None else mark + rest.encode()
                    records.append((start + pack_ordinal(ordinal ^ flip), value))
                else:
                    records.append(_record(queue_id, candidate, ordinal))
            if queue_id in last:
                kernel.heads.arrived(queue_id, min(records[before:])[0])
        records.sort()  # in order already, but for priorities and costs
        kernel.env.pending.putmulti(records)
        kernel.env.written += sum(map(_size, records))
        self._arrive(groups.values(), now)

    def _set_aside(self, special: Special, now: float) -> bool:
        """Schedule a candidate for later, if it is to wait for its time."""
        uri = special.uri
        if uri is None or uri.not_before is None or uri.not_before <= now:
            return False
        kernel = self._kernel
        place = keys.place.pack(uri.directive, keys.invert_priority(uri.priority), special.cost, 0)
        queue = kernel.queues.find_or_create(special.queue)
        kernel.later.add(queue, place, special.value, uri.not_before, kernel.next_ordinal())
        return True

    def _arrive(self, groups: Iterable[tuple[int, QueueRecord, list[Any]]], now: float) -> None:
        """Tell each queue once what was placed on it."""
        kernel = self._kernel
        force, revision, dirty = kernel.force, kernel.counters.settings_revision, kernel.queues.dirty
        fixed = force.fixed_precedence
        for queue_id, queue, candidates in groups:
            last = candidates[-1]
            if type(last) is tuple:
                short, settings = last[0][4] + last[1], force.base
            else:
                short, settings = short_url(last.value), last.settings
            queue.last_enqueued = short if len(short) <= LONGEST_SHOWN else short[:LONGEST_SHOWN]
            if queue.revision != revision or not fixed:
                uri = None if type(last) is tuple else last.uri
                url = expand(short, queue.queue)
                kernel.take_budgets(queue, CrawlUri(url) if uri is None else _renamed(uri, url))
            count, state = len(candidates), queue.state
            if state is INACTIVE or state is READY or state is SNOOZED:  # the common case of `arrived`
                queue.queued += count
                queue.enqueued += count
                kernel.counters.queued += count
                dirty.add(queue_id)
            else:
                kernel.arrived(queue, count, settings, now)


def _found_at(via: CrawlUri) -> str:
    """The hops of a link on a page; of an endless chain of pages only the last."""
    return (via.hops + "L")[-MAX_HOPS:]


def _size(record: tuple[bytes, bytes]) -> int:
    return len(record[1])


def _check_key(key: object) -> str:
    """The key of a queue, from a caller or a policy. Raises InvalidUrl."""
    try:
        if isinstance(key, str) and 0 < len(key.encode()) <= keys.MAX_QUEUE_KEY and "\0" not in key:
            return key
    except UnicodeEncodeError:
        pass
    raise InvalidUrl("queue", "a queue key is text of 1 to 255 bytes")


def _record(queue_id: int, special: Special, ordinal: int) -> tuple[bytes, bytes]:
    """The pending record of a candidate."""
    directive, priority = 3, keys.PRIORITY_ZERO
    if special.uri is not None:
        directive, priority = int(special.uri.directive), keys.invert_priority(special.uri.priority)
    arrival = keys.MAX_ORDINAL - ordinal if special.settings.lifo else ordinal
    return keys.pending.pack(queue_id, directive, priority, special.cost, arrival), special.value


def _renamed(uri: CrawlUri, url: str) -> CrawlUri:
    return uri if uri.url == url else msgspec.structs.replace(uri, url=url)


def _check(uri: CrawlUri, url: str) -> None:
    """What cannot be stored is INVALID, for one URI must not poison its batch."""
    numbers: list[object] = [uri.priority, uri.directive, 0 if uri.cost is None else uri.cost]
    if not all(isinstance(n, int) for n in numbers) or not 0 <= uri.directive <= 3:
        raise InvalidUrl("type", "priority, directive and cost are whole numbers")
    when: object = uri.not_before
    if when is not None and not (isinstance(when, int | float) and abs(when) <= MAX_TIME):
        raise InvalidUrl("type", "not_before is a time in epoch seconds")
    try:
        value = encode_uri(uri, url, "")
        decode_uri(value, "")
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise InvalidUrl("type", f"cannot be stored: {e}") from None
    if len(value) > MAX_RECORD:
        raise InvalidUrl("too-large", f"{len(value)} bytes with all it carries; at most {MAX_RECORD}")
