"""Admission: from the URIs that a caller passes to pending records, once per canonical form.

URIs are processed in batches: fingerprints are looked up and stored in key order, pending records likewise, and each
queue is updated once per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from budgetfrontier.engine.admission.candidates import Authority, Batch, Candidates, Known, Plain, Special
from budgetfrontier.engine.admission.seen import SeenTable
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.model import Admission, CrawlUri, QueueRecord, Tally
from budgetfrontier.rules import admission_limits, charges, uri_order
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.store import keys
from budgetfrontier.store.records import encode, encode_found, link_hops, short_url, shorten

Read = tuple[list[Any], Batch | None]
"""A batch that is admitted at once, and the result of reading it; None for a few plain URLs, already read."""
FEW = 8
"""The largest batch whose URLs are admitted one by one, if they are plain: from about ten on, a batch is cheaper."""


class Admitter:
    """Admits URIs to their queues. Cost per URI: one look-up and, when new, three puts."""

    def __init__(self, tables: Tables, turns: Turns, suffix_list: str | None) -> None:
        self._tables = tables
        self._turns = turns
        self._candidates = Candidates(tables, suffix_list)
        self._seen = SeenTable(tables.env)
        self.canonicalizer_id = self._candidates.canonicalizer_id

    def __repr__(self) -> str:
        return f"<Admitter {self._tables.counters.scheduled} URIs admitted, {self._seen!r}>"

    def take(self, batch: Iterable[object], tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch, in order; count the results. Raises PolicyError, having changed nothing."""
        self.admit(self.read(batch, tally, via), tally, now, via)

    def read(self, batch: Iterable[object], tally: Tally, via: CrawlUri | None = None) -> Sequence[Read]:
        """Call the policies for a batch, for `admit`; count INVALID URIs. Changes nothing. Raises PolicyError."""
        batch = list(batch)
        recent, read = self._seen.recent, self._candidates.read
        if self._tables.in_force.one_by_one:
            found: list[Read] = [([given], read([given], tally, via, recent)) for given in batch]
        elif len(batch) <= FEW and (few := self._read_few(batch)) is not None:
            return [(few, None)]
        else:
            found = [(batch, read(batch, tally, via, recent))] if batch else []
        if found:
            self._constant_cost()  # raises for a policy that cannot be created
        return found

    def admit(self, found: Sequence[Read], tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch that `read` has read. Calls no policy."""
        for batch, candidates in found:
            if candidates is None:
                self._take_few(batch, tally, now, via)
            else:
                self._take(batch, candidates, tally, now, via)

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI with a normalized URL would be placed on."""
        return self._candidates.queue_key(uri)

    def mark_seen(self, batch: Iterable[str | CrawlUri], tally: Tally, *, charge: bool) -> None:
        """Mark a batch as seen without queueing it; with `charge`, charge the queues of URIs not seen before."""
        batch = [_unforced(given) for given in batch]
        if not batch:
            return
        candidates, _, invalid = found = self._candidates.read(batch, tally, None, self._seen.recent)
        constant = self._constant_cost()
        self._seen.drop_seen(found)
        tally.added += len(candidates)
        tally.duplicate += len(batch) - len(invalid) - len(candidates)
        self._seen.remember(batch, invalid)
        tables = self._tables
        tables.env.wrote(0, len(candidates))
        if not charge:
            return
        for candidate in candidates.values():
            name, cost = (
                (candidate.queue, candidate.cost) if type(candidate) is Special else (candidate[0].queue, constant)  # type: ignore[union-attr]
            )
            charges.charge_seen(tables.queues.find_or_create(name), cost)
            tables.counters.expenditure += cost

    def take_one(self, given: object, now: float) -> Admission:
        """Admit one URI; return the result. Raises PolicyError, having changed nothing."""
        tables = self._tables
        if type(given) is str and not tables.in_force.one_by_one:
            if given in self._seen.recent:
                tables.counters.duplicates += 1
                return Admission.DUPLICATE
            known = self._candidates.read_plain(given)
            if known is not None:
                return Admission.ADDED if self._take_plain(*known, None, now) else Admission.DUPLICATE
        tally = Tally()
        self.take((given,), tally, now)
        return Admission.ADDED if tally.added else _became(tally)

    # -- a few plain URLs: the machinery of a batch would cost more than it saves

    def _read_few(self, batch: list[Any]) -> list[Known | None] | None:
        """Read plain URLs, each alone (None: seen recently); return None if one of them is not plain."""
        few: list[Known | None] = []
        recent, read_plain = self._seen.recent, self._candidates.read_plain
        for given in batch:
            if type(given) is not str:
                return None
            known = None if given in recent else read_plain(given)
            if known is None and given not in recent:
                return None
            few.append(known)
        return few

    def _take_few(self, few: list[Known | None], tally: Tally, now: float, via: CrawlUri | None) -> None:
        """Admit URLs that `_read_few` has read, in order."""
        counters = self._tables.counters
        for known in few:
            if known is None:
                counters.duplicates += 1
                tally.duplicate += 1
            elif self._take_plain(*known, via, now):
                tally.added += 1
            else:
                tally.duplicate += 1

    def _take_plain(
        self, url: str, fingerprint: bytes, authority: Authority, rest: str, via: CrawlUri | None, now: float
    ) -> bool:
        """Admit a plain URL unless it is known; tell whether it was new.

        This does what `_admit`, `_place` and `_insert` do for a batch; tests/engine/admission/test_admit.py compares
        both. It takes half of the instructions for one alone.
        """
        tables = self._tables
        counters, base = tables.counters, tables.in_force.base
        if not self._seen.add(fingerprint, url):
            counters.duplicates += 1
            return False
        counters.scheduled += 1
        counters.ordinal = ordinal = counters.ordinal + 1
        queue, short = tables.queues.find_or_create(authority.queue), authority.short + rest
        if via is not None:
            value = encode_found(short, shorten(via.url, queue.queue), link_hops(via))
        elif authority.mark is not None:
            value = authority.mark + rest.encode()
        else:
            value = keys.FRESH + encode((short,))
        arrival = uri_order.arrival(ordinal, lifo=True) if base.lifo else ordinal
        key = keys.pending.pack(queue.id, NORMAL, PRIORITY_ZERO, tables.in_force.constant_cost, arrival)
        tables.pending.insert_one(queue.id, key, value)
        self._turns.arrived(queue, 1, short, base, None, now)
        return True

    # -- batches

    def take_each(self, batch: list[Any], now: float) -> list[Admission]:
        """Admit a batch, in order; return the result for each URI. Raises PolicyError, having changed nothing."""
        if len(batch) < 2 or self._tables.in_force.one_by_one:
            tallies = [Tally() for _ in batch]
            reads = [self.read([given], tally) for given, tally in zip(batch, tallies, strict=True)]
            for read, tally in zip(reads, tallies, strict=True):
                self.admit(read, tally, now)
            return list(map(_became, tallies))
        tally = Tally()
        found = self._candidates.read(batch, tally, None, self._seen.recent)
        keys: list[Any] = list(found.candidates)
        if len(keys) < len(batch):  # some are not candidates: find out which
            found, keys = self._read_each(batch)
        self._constant_cost()  # as in `read`
        self._admit(found, batch, tally, now, None)
        new = found.candidates
        return [
            key if type(key) is Admission else Admission.ADDED if key in new else Admission.DUPLICATE for key in keys
        ]

    def _read_each(self, batch: list[Any]) -> tuple[Batch, list[Any]]:
        """Read a batch one by one: return all URIs that may be new, and the key or the result of each."""
        found = Batch({}, [], [])
        keys: list[Any] = []
        for number, given in enumerate(batch):
            candidates, forced, invalid = self._candidates.read([given], Tally(), None, self._seen.recent)
            key = next(iter(candidates), None)
            if forced:
                found.forced.append(number)
                found.candidates[number] = candidates[key]
                keys.append(number)
            elif key is None or key in found.candidates:
                found.invalid.extend(invalid)
                keys.append(Admission.INVALID if invalid else Admission.DUPLICATE)
            else:
                found.candidates[key] = candidates[key]
                keys.append(key)
        return found, keys

    def _take(self, batch: list[Any], found: Batch, tally: Tally, now: float, via: CrawlUri | None) -> None:
        candidates, forced, _ = found
        if candidates and self._tables.in_force.limits_queues:
            key, candidate = next(iter(candidates.items()))  # with limits, candidates come one by one
            if self._is_full(candidate, via) and (forced or not self._seen.is_seen(key)):
                tally.full += 1
                return
        self._admit(found, batch, tally, now, via)  # a duplicate is a DUPLICATE even if its queue is full

    def _admit(self, found: Batch, batch: list[Any], tally: Tally, now: float, via: CrawlUri | None) -> None:
        """Admit the new URIs of a batch, and count them; only these are left as candidates."""
        candidates, _, invalid = found
        self._seen.drop_seen(found)
        repeated = len(batch) - len(invalid) - len(candidates)
        tally.added += len(candidates)
        tally.duplicate += repeated
        self._tables.counters.duplicates += repeated
        self._seen.remember(batch, invalid)
        if candidates:
            self._tables.counters.scheduled += len(candidates)
            self._place(candidates.values(), via, now)

    def _constant_cost(self) -> int:
        """Return what a URI costs if every URI costs the same; otherwise 0, and each candidate has its own cost."""
        return self._tables.in_force.constant_cost or 0

    def _is_full(self, candidate: Plain | Special, via: CrawlUri | None) -> bool:
        tables = self._tables
        if type(candidate) is Special:
            name, settings, uri = candidate.queue, candidate.settings, candidate.uri
        else:
            name, settings, uri = candidate[0].queue, tables.in_force.base, None  # type: ignore[union-attr]

        def queue_size() -> int:
            queue = tables.queues.look_up(name)
            return 0 if queue is None else queue.queued

        queued, frontier = tables.counters.queued, tables.in_force.frontier
        full = admission_limits.is_full(frontier, settings, queued=queued, queue_size=queue_size)
        return full and not admission_limits.may_overfill(uri, via)

    def _place(self, admitted: Iterable[Any], via: CrawlUri | None, now: float) -> None:
        """Put candidates on their queues in the order of the table, then update each queue once, by arrival."""
        tables = self._tables
        groups: dict[str, tuple[int, QueueRecord, list[Any]]] = {}  # queue key -> id, queue, candidates
        for candidate in admitted:
            if type(candidate) is tuple:
                name = candidate[0].queue
            else:
                name = candidate.queue
                if self._postpone(candidate, now):
                    continue
            group = groups.get(name)
            if group is None:
                queue = tables.queues.find_or_create(name)
                groups[name] = queue.id, queue, [candidate]
            else:
                group[2].append(candidate)
        self._insert(sorted(groups.values()), via)
        base = tables.in_force.base
        for _, queue, candidates in groups.values():
            last = candidates[-1]
            if type(last) is tuple:
                self._turns.arrived(queue, len(candidates), last[0].short + last[1], base, None, now)
            else:
                short = short_url(last.value)
                self._turns.arrived(queue, len(candidates), short, last.settings, last.precedence, now)

    def _insert(self, groups: list[tuple[int, QueueRecord, list[Any]]], via: CrawlUri | None) -> None:
        """Write the pending records of candidates, which are given by queue."""
        tables = self._tables
        counters = tables.counters
        start_of, pack_ordinal, fresh = keys.pending_start.pack, keys.u64.pack, keys.FRESH
        flip = uri_order.arrival(0, lifo=tables.in_force.base.lifo)  # ordinal ^ flip: its arrival, without a call
        cost = self._constant_cost()
        hops = "" if via is None else link_hops(via)
        records: list[tuple[bytes, bytes]] = []
        for queue_id, queue, candidates in groups:
            start = start_of(queue_id, NORMAL, PRIORITY_ZERO, cost)
            found_on = None if via is None else shorten(via.url, queue.queue)
            for candidate in candidates:
                counters.ordinal = ordinal = counters.ordinal + 1
                if type(candidate) is tuple:
                    authority, rest = candidate
                    if found_on is not None:
                        value = encode_found(authority.short + rest, found_on, hops)
                    elif authority.mark is not None:
                        value = authority.mark + rest.encode()
                    else:
                        value = fresh + encode((authority.short + rest,))
                    records.append((start + pack_ordinal(ordinal ^ flip), value))
                else:
                    records.append(_record(queue_id, candidate, ordinal))
        records.sort()  # in order already, but for priorities and costs
        tables.pending.insert(records)

    def _postpone(self, special: Special, now: float) -> bool:
        """Schedule a candidate for later if it has a `not_before` ahead."""
        uri = special.uri
        if uri is None or uri.not_before is None or uri.not_before <= now:
            return False
        rank = keys.rank.pack(*uri_order.rank(uri.directive, uri.priority, special.cost, 0))
        queue = self._tables.queues.find_or_create(special.queue)
        self._tables.future.add(queue, rank, special.value, uri.not_before)
        return True


def _became(tally: Tally) -> Admission:
    """Return the result for the one URI that was counted."""
    if tally.added:
        return Admission.ADDED
    if tally.duplicate:
        return Admission.DUPLICATE
    return Admission.FULL if tally.full else Admission.INVALID


def _unforced(given: str | CrawlUri) -> str | CrawlUri:
    """Return the same URI without `force`, so that it has a fingerprint."""
    return replace(given, force=False) if isinstance(given, CrawlUri) and given.force is True else given


def _record(queue_id: int, special: Special, ordinal: int) -> tuple[bytes, bytes]:
    """Return the pending record of a candidate."""
    arrival = uri_order.arrival(ordinal, lifo=special.settings.lifo)
    if special.uri is None:
        rank = uri_order.rank(NORMAL, 0, special.cost, arrival)
    else:
        rank = uri_order.rank(special.uri.directive, special.uri.priority, special.cost, arrival)
    return keys.pending.pack(queue_id, *rank), special.value
