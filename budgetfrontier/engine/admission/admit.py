"""Admission: from the URIs that a caller passes to pending records, once per canonical form.

URIs are processed in batches: fingerprints are looked up and stored in key order, pending records likewise, and each
queue is updated once per batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from budgetfrontier.core.model import Admission, CrawlUri, Tally
from budgetfrontier.engine.admission.candidates import Candidates
from budgetfrontier.engine.admission.limits import Limits
from budgetfrontier.engine.admission.placing import Placer
from budgetfrontier.engine.admission.plain_batches import Calls, Gather, PlainBatch, PlainBatches
from budgetfrontier.engine.admission.read_batch import Batch, UriCandidate
from budgetfrontier.engine.admission.seen import FilteredSeenTable, SeenTable
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.priority_updates import PriorityUpdates
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.rules import admission_limits, charges
from budgetfrontier.rules.duplicates import NOOP
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import NORMAL

Read = tuple[Sequence[Any], Batch | PlainBatch]
"""A batch, and the result of reading it."""

_ADDED, _DUPLICATE, _FULL = Admission.ADDED, Admission.DUPLICATE, Admission.FULL


class Admitter:
    """Admits URIs to their queues. Cost per URI: one look-up and, when new, three puts."""

    def __init__(self, tables: Tables, turns: Turns, suffix_list: str | None) -> None:
        self._tables = tables
        self._turns = turns
        self._candidates = Candidates(tables, suffix_list)
        seen = SeenTable(tables.env)
        seen.remembers = tables.in_force.frontier.duplicates != NOOP
        self._seen = seen if tables.filter is None else FilteredSeenTable(seen, tables.filter)
        self._limits = Limits(tables)
        self._placer = Placer(tables, turns)
        self._updates: PriorityUpdates | None = None
        self._plain: PlainBatches | None = None
        """The compiled kernel; None where it is not installed, or cannot take any batch of this frontier."""
        if kernel is not None and self._candidates.query_rules is not None and tables.filter is None:
            self._plain = PlainBatches(tables, turns, self._candidates, seen)
            if turns.plain is not None:
                turns.plain.admission = self._plain.parts(self._admits_links)
        self.canonicalizer_id = self._candidates.canonicalizer_id
        self.keeps_hosts = self._candidates.keeps_hosts

    def update_priorities(self, updates: PriorityUpdates) -> None:
        """Let URIs that wait take the priority of more urgent duplicates, from now on."""
        self._updates = updates
        self._seen.remembers = False

    def take(self, batch: Iterable[object], tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch, in order; count the results. Raises PolicyError, having changed nothing."""
        self.admit(self.read(list(batch), tally, via), tally, now, via)

    def read(self, batch: Sequence[object], tally: Tally, via: CrawlUri | None = None) -> Read:
        """Call the policies for a batch, for `admit`; count INVALID URIs. Changes nothing. Raises PolicyError."""
        if via is not None and via.source is not None:
            batch = [_labelled(given, via.source) for given in batch]
        read = self._read_batch(batch, tally, via)
        if self._tables.in_force.counts_links:
            self._tables.links.note(batch, via)
        return read

    def _read_batch(self, batch: Sequence[object], tally: Tally, via: CrawlUri | None) -> Read:
        return batch, self._read_plain(batch, tally, via) or self._read(batch, tally, via)

    def _read_plain(self, batch: Sequence[Any], tally: Tally, via: CrawlUri | None) -> PlainBatch | None:
        """Let the compiled kernel read a batch; None if it is not there, or cannot."""
        if self._plain is None or self._updates:
            return None
        return self._plain.read(batch, tally, via)

    def _read(self, batch: Sequence[Any], tally: Tally, via: CrawlUri | None) -> Batch:
        found = self._candidates.read(batch, tally, via, self._seen.recent)
        self._constant_cost()  # raises for a policy that cannot be created
        return found

    def admit(self, read: Read, tally: Tally, now: float, via: CrawlUri | None = None) -> None:
        """Admit a batch that `read` has read. Calls no policy."""
        batch, found = read
        if isinstance(found, PlainBatch):
            self._admit_plain(found, batch, tally, now, via)
        elif batch:
            self._admit(found, batch, tally, now, via)

    def _admits_links(self) -> bool:
        in_force = self._tables.in_force
        if self._plain is None or self._updates is not None or in_force.has_limits or in_force.counts_links:
            return False
        return self._plain.admits_links()

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI with a normalized URL would be placed on."""
        return self._candidates.queue_key(uri)

    def fingerprint(self, uri: CrawlUri) -> bytes:
        """Return the fingerprint of a URI with a normalized URL, forced or not. Raises PolicyError."""
        return self._candidates.fingerprint(uri)

    def known_fingerprint(self, url: str) -> bytes | None:
        """Return the fingerprint of a URL if it is plain and its authority is in memory. Raises PolicyError."""
        return self._candidates.known_fingerprint(url)

    def is_seen(self, fingerprint: bytes) -> bool:
        """Return whether a URI with this fingerprint is a DUPLICATE, unless it is forced."""
        return self._seen.is_seen(fingerprint)

    def see(self, fingerprint: bytes) -> None:
        """Record a fingerprint as seen."""
        self._seen.add_all([fingerprint])

    def forget(self, fingerprint: bytes) -> None:
        """Forget a fingerprint, so that its URLs are admitted again."""
        self._seen.forget(fingerprint)

    def know(self, fingerprint: bytes) -> None:
        """Make URLs of a fingerprint that was forgotten DUPLICATE again."""
        self._seen.add_all((fingerprint,))

    def has_room(self, given: object) -> bool:
        """Return whether a URI would not be FULL: it finds room, or it is known, or INVALID. Raises PolicyError."""
        found = self._candidates.read([given], Tally(), None, self._seen.recent)
        return all(
            self._limits.reached(candidate, None) is None or (key not in found.forced and self._seen.is_seen(key))
            for key, candidate in found.candidates.items()
        )

    def mark_seen(self, batch: Iterable[str | CrawlUri], tally: Tally, now: float, *, charge: bool) -> None:
        """Mark a batch as seen without queueing it; with `charge`, charge the queues of URIs not seen before."""
        batch = [_unforced(given) for given in batch]
        if not batch:
            return
        found = self._see_all(batch, tally)
        candidates = found.candidates
        self._list_seeds(found, now, SeedFate.KNOWN)
        tables = self._tables
        if tables.urls is not None:
            for fingerprint, candidate in candidates.items():
                tables.urls.completed(fingerprint, candidate.queue, candidate.short)
        if not charge:
            return
        for candidate in candidates.values():
            queue, cost = tables.queues.find_or_create(candidate.queue), candidate.cost
            self._turns.settings.refresh(queue)  # a precedence by successes is that before the charge
            charges.charge_seen(queue, cost)
            if queue.group:
                tables.groups.get(queue.group).expenditure += cost
            tables.counters.expenditure += cost
            tables.counters.other_expenditure += cost

    def bury(self, batch: Sequence[Any], reasons: Sequence[str], tally: Tally, now: float) -> None:
        """Add URIs that are not known as dead letters, each with its reason, without queueing or charging them."""
        batch = [_unforced(given) for given in batch]
        if not batch:
            return
        found = self._see_all(batch, tally)
        for (key, candidate), reason in zip(found.each, reasons, strict=True):
            if candidate is not None and found.candidates.get(key) is candidate:
                self._placer.bury(candidate, key, reason, now)
        why = {key: reason for (key, _), reason in zip(found.each, reasons, strict=True)}
        self._list_seeds(found, now, SeedFate.DEAD, why)

    def _see_all(self, batch: Sequence[Any], tally: Tally) -> Batch:
        """Record the URIs of a batch that are not known as seen, and count them; only these are left as candidates.

        Those for which a Bloom filter has no room are FULL, and leave no trace.
        """
        found = self._read(batch, tally, None)
        full = self._drop_beyond_filter(found, batch, tally)
        self._seen.drop_seen(found)
        new = len(found.candidates)
        tally.added += new
        tally.duplicate += len(batch) - len(found.invalid) - len(full) - new
        self._seen.remember(batch, found.invalid + full)
        self._tables.env.wrote(0, new)
        return found

    def _drop_beyond_filter(self, found: Batch, batch: Sequence[Any], tally: Tally) -> list[Any]:
        """Drop the candidates for which a Bloom filter has no room, and return the URIs that are FULL for that."""
        bloom, candidates = self._tables.filter, found.candidates
        if bloom is None or bloom.has_room(len(candidates)):
            return []
        known = self._seen.known(candidates)
        new = [key for key in candidates if key not in known]
        refused = {key for number, key in enumerate(new, 1) if not bloom.has_room(number)}
        for key in refused:
            del candidates[key]
        full = [given for given, (key, _) in zip(batch, found.each, strict=True) if key in refused]
        if full:
            self._refuse(admission_limits.BLOOM_EXPECTED, len(full), tally)
        return full

    @property
    def gather(self) -> Gather:
        """The function that admits URIs after `begin_to_gather`."""
        return _gather_none if self._plain is None else self._plain.gather

    def begin_to_gather(self, uri: str | CrawlUri, now: float, calls: Calls) -> Admission | None:
        """Admit a URI that `place_gathered` puts on its queue, and let `gather` admit more; None if it may not wait."""
        return (
            None if self._plain is None or self._updates is not None else self._plain.begin_to_gather(uri, now, calls)
        )

    def place_gathered(self) -> tuple[float, int] | None:
        """Put the URIs that were gathered on their queues, before anything else looks or happens.

        Return the time and the number of the calls that were answered so; None if there were none.
        """
        return None if self._plain is None else self._plain.place_gathered()

    def is_busy(self) -> bool:
        """Return whether it is the middle of a call that gathers."""
        return self._plain is not None and self._plain.is_busy()

    def take_one(self, given: object, now: float) -> Admission:
        """Admit one URI; return the result. Raises PolicyError, having changed nothing."""
        if type(given) is str and self._updates is None:
            if given in self._seen.recent:
                self._tables.counters.duplicates += 1
                return _DUPLICATE
            if (plain := self._candidates.read_plain(given, given, None)) is not None:
                return self._take_plain(given, plain, now)
        return self._take_each([given], now)[0]

    def _take_plain(self, url: str, plain: tuple[bytes, UriCandidate], now: float) -> Admission:
        """Admit a plain URL alone, for less than a batch of one."""
        counters, (fingerprint, candidate) = self._tables.counters, plain
        if self._tables.rekeyed:
            self._turns.reassignment.arrive(now)
        limited = self._tables.in_force.has_limits
        if limited and (limit := self._limits.reached(candidate, None)) and not self._seen.is_seen(fingerprint):
            self._refuse(limit, 1, None)
            return _FULL
        if not self._seen.add(fingerprint, url):
            counters.duplicates += 1
            return _DUPLICATE
        counters.scheduled += 1
        self._placer.add(fingerprint, candidate, now)
        self._placer.write()
        return _ADDED

    # -- batches

    def take_each(self, batch: list[Any], now: float) -> list[Admission]:
        """Admit a batch, in order; return the result for each URI. Raises PolicyError, having changed nothing."""
        if len(batch) < 2:
            return [self.take_one(given, now) for given in batch]
        return self._take_each(batch, now)

    def _take_each(self, batch: list[Any], now: float) -> list[Admission]:
        tally = Tally()
        read = self._read_plain(batch, tally, None) or self._read(batch, tally, None)
        if self._tables.in_force.counts_links:
            self._tables.links.note(batch, None)
        if isinstance(read, PlainBatch):
            found = self._admit_plain(read, batch, tally, now, None)
            if found is None:
                return self._plain.results(read)  # type: ignore[union-attr]
        else:
            found = read
            self._admit(found, batch, tally, now, None)
        admitted = found.candidates
        return [
            key if candidate is None else _ADDED if admitted.get(key) is candidate else _DUPLICATE
            for key, candidate in found.each
        ]

    def _admit_plain(
        self, found: PlainBatch, batch: Sequence[Any], tally: Tally, now: float, via: CrawlUri | None
    ) -> Batch | None:
        """Admit a batch that the compiled kernel has read; return it if some of its URIs may have been FULL."""
        plain = self._plain
        assert plain is not None
        if self._tables.rekeyed:
            self._turns.reassignment.arrive(now)
        if not self._tables.in_force.has_limits or self._limits.have_room_for(plain.sizes(found)):
            plain.admit(found, tally, now, via)
            return None
        candidates = plain.candidates(found, batch, via)
        self._admit(candidates, batch, tally, now, via)
        return candidates

    def _admit(self, found: Batch, batch: Sequence[Any], tally: Tally, now: float, via: CrawlUri | None) -> None:
        """Admit the new URIs of a batch as far as there is room, and count them; only these are left as candidates."""
        candidates = found.candidates
        full: list[Any] = []
        if self._tables.rekeyed:
            self._turns.reassignment.arrive(now)
        if self._limits.have_room(candidates.values()):
            self._seen.drop_seen(found)
            if candidates:
                self._placer.place(candidates, now)
        else:
            limits = self._admit_while_there_is_room(found, via, now)
            refused = set(map(id, (candidate for candidate, _ in limits)))
            found = found._replace(seeds=[seed for seed in found.seeds if id(seed[1]) not in refused])
            for limit, count in Counter(limit for _, limit in limits).items():
                self._refuse(limit, count, tally)
            full = [given for given, (key, _) in zip(batch, found.each, strict=True) if key is _FULL]
        repeated = len(batch) - len(found.invalid) - len(full) - len(candidates)
        tally.added += len(candidates)
        tally.duplicate += repeated
        counters = self._tables.counters
        counters.duplicates += repeated
        counters.scheduled += len(candidates)
        for reason in found.reasons:
            counters.invalid_reasons[reason] = counters.invalid_reasons.get(reason, 0) + 1
        self._seen.remember(batch, found.invalid + full)
        if found.seeds:
            self._list_seeds(found, now, SeedFate.WAITING)
        if self._updates is not None and repeated:
            for key, candidate in found.each:
                if candidate is not None and candidates.get(key) is not candidate:
                    self._updates.update(key, *_urgency(candidate))

    def _list_seeds(
        self, found: Batch, now: float, admitted: SeedFate, reasons: Mapping[Any, str] | None = None
    ) -> None:
        """List the seeds of a batch that were admitted, or are known; a FULL one may come again."""
        seeds = self._tables.seeds
        for key, candidate, uri in found.seeds:
            if found.candidates.get(key) is candidate:
                seeds.scheduled(uri, candidate.queue, now, admitted, reasons.get(key, "") if reasons else "")
            elif key not in found.forced and self._seen.is_seen(key):
                seeds.scheduled(uri, "", now, SeedFate.KNOWN)

    def _admit_while_there_is_room(
        self, found: Batch, via: CrawlUri | None, now: float
    ) -> list[tuple[UriCandidate, str]]:
        """Admit the new URIs of a batch, some perhaps FULL, in order; return these with the limits that they met.

        These leave no trace. One does not make the next one of its form a DUPLICATE: that may be on another queue.
        """
        candidates, each = found.candidates, found.each
        met: set[Any] = self._seen.known(candidates.keys() - set(found.forced))
        limits: list[tuple[UriCandidate, str]] = []
        candidates.clear()
        for number, (key, candidate) in enumerate(each):
            if candidate is None or key in met:
                continue
            limit = self._limits.reached(candidate, via)
            if limit is not None:
                each[number] = _FULL, None
                limits.append((candidate, limit))
            else:
                met.add(key)
                candidates[key] = candidate
                self._placer.add(key, candidate, now)
                if type(key) is bytes:
                    self._seen.add_all((key,))
        self._placer.write()
        return limits

    def _refuse(self, limit: str, count: int, tally: Tally | None) -> None:
        """Count URIs that are FULL because of a limit, in the totals and the tally, if there is one."""
        counters = self._tables.counters
        counters.full_reasons[limit] = counters.full_reasons.get(limit, 0) + count
        if tally is not None:
            tally.find_full(limit, count)

    def _constant_cost(self) -> int:
        """Return the cost of every URI if it is the same for all; otherwise 0, and each candidate has its own."""
        return self._tables.in_force.constant_cost or 0


def _gather_none(given: object) -> None:
    """Gather nothing: there is no kernel that does."""


def _urgency(candidate: UriCandidate) -> tuple[int, int]:
    uri = candidate.uri
    return (NORMAL, 0) if uri is None else (int(uri.directive), uri.priority)


def _labelled(given: Any, label: str) -> Any:
    """Return a URI that was found on a page, with the label of that page if it has none of its own."""
    if isinstance(given, str):
        return CrawlUri(given, source=label)
    return replace(given, source=label) if isinstance(given, CrawlUri) and given.source is None else given


def _unforced(given: str | CrawlUri) -> str | CrawlUri:
    """Return the same URI without `force`, so that it has a fingerprint."""
    return replace(given, force=False) if isinstance(given, CrawlUri) and given.force is True else given
