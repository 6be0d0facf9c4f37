"""Batches whose URIs all have the same cost and place, read and packed by the compiled kernel.

The results, and every record that is written, are those of `Candidates.read` and `Placer`: tests/engine/admission/
test_kernel.py compares them. Needs less than a third of the instructions of a page of links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.model import Admission, CrawlState, CrawlUri, Tally
from budgetfrontier.engine.admission import candidates as candidates_read
from budgetfrontier.engine.admission import seen as seen_table
from budgetfrontier.engine.admission.candidates import Candidates
from budgetfrontier.engine.admission.read_batch import Batch, UriCandidate
from budgetfrontier.engine.admission.seen import SeenTable
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.plain_turns import AdmissionParts
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import uri_order
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import link_hops

_ADDED, _DUPLICATE = Admission.ADDED, Admission.DUPLICATE
_RANK: Final = slice(0, 9)
"""The bytes of a rank before the arrival."""
MOST_GATHERED: Final = 1000
"""URIs that are gathered before they are placed, so that no call takes long."""
Gather = Callable[[object], Admission | tuple[Admission] | None]
"""Answers a call of `schedule` by a URI that `place_gathered` places on its queue; None if it cannot wait for that.

The result is in a tuple if more is due at the end of the call."""
Calls = tuple[Any, Any]
"""Clocks that a call looks at, and what ends the calls that the kernel answers (`Guard.of_calls`)."""


class PlainBatch(NamedTuple):
    """A batch as the kernel has read it, and why some of its URIs are INVALID."""

    uris: Any
    reasons: list[str]


class PlainBatches:
    """The reader and placer of such batches. It has the URLs admitted last in memory, as fingerprints.

    URIs that are scheduled one by one are gathered: each is looked up and recorded as seen at once, but they are placed
    on their queues together, before anything else happens in the frontier (`Guard.reenter`).
    """

    def __init__(self, tables: Tables, turns: Turns, candidates: Candidates, seen: SeenTable) -> None:
        assert kernel is not None
        self._tables = tables
        self._turns = turns
        self._candidates = candidates
        self._kernel: Any = kernel.BatchReader(
            candidates.plain,
            candidates.query_rules,
            longest=uris.MAX_LENGTH,
            authorities=candidates_read.AUTHORITIES,
            recent=seen_table.RECENT,
            hosts=candidates.plain_hosts,
            carriers=candidates_read.CARRIERS,
        )
        seen.on_forget = self._kernel.forget
        if tables.urls is not None:
            queues = tables.queues
            of_queues = queues.cache, queues.dirty, queues.get
            tables.urls.kernel = kernel.KeptUrls(self._kernel, candidates.canonical_authority, *of_queues)
        self.gather: Gather = self._kernel.schedule
        self.is_busy: Callable[[], bool] = self._kernel.is_busy

    def read(self, batch: Sequence[Any], tally: Tally, via: CrawlUri | None) -> PlainBatch | None:
        """Call the policies for a batch, and count INVALID URIs; None if the Python engine has to read it.

        Raises PolicyError. Changes nothing.
        """
        if not self._candidates.are_simple():
            return None
        reasons: list[str] = []
        cost = self._tables.in_force.constant_cost

        def other(given: object) -> tuple[bytes, str, bytes, str, int] | None:
            """Return a URI that is not plain; None if it is INVALID."""
            try:
                fingerprint, special = self._candidates.prepare(given, via)
            except InvalidUrl as e:
                reasons.append(e.reason)
                return None
            if fingerprint is None or special.cost != cost or _has_a_place(special):
                raise _OwnPlace
            priority = 0 if special.uri is None else special.uri.priority
            return fingerprint, special.queue, special.value, special.short, uri_order.inverted(priority)

        try:
            given = batch if type(batch) is list else list(batch)
            found = self._kernel.read(given, self._candidates.authority, other, carries=via is None)
        except _OwnPlace:
            return None
        for reason in reasons:
            tally.refuse(reason)
        return PlainBatch(found, reasons)

    def admit(self, batch: PlainBatch, tally: Tally, now: float, via: CrawlUri | None) -> None:
        """Admit the URIs of a batch that are new, and count all. Calls no policy."""
        found, reasons = batch
        counters = self._tables.counters
        found.record(self._tables.env.seen.put)
        self._kernel.remember(found)
        new = self._place(found, now, via)
        for reason in reasons:
            counters.invalid_reasons[reason] = counters.invalid_reasons.get(reason, 0) + 1
        known = found.given - len(reasons) - new
        tally.added += new
        tally.duplicate += known
        counters.duplicates += known

    def sizes(self, batch: PlainBatch) -> dict[str, int]:
        """Return how many URIs of a batch may be new, by queue; one that is given twice counts twice."""
        return dict(batch.uris.queues())

    def candidates(self, batch: PlainBatch, given: Sequence[Any], via: CrawlUri | None) -> Batch:
        """Return a batch as `Candidates.read` does: some of its URIs may be FULL. Calls no policy."""
        found, names = batch.uris, list(self.sizes(batch))
        in_force, results = self._tables.in_force, self.results(batch)
        cost, base = in_force.constant_cost or 0, in_force.base
        every: list[tuple[Any, UriCandidate | None]] = [
            (key, UriCandidate(names[place], value, short, _prior(short, priority), cost, base, None, None))
            for key, place, value, short, priority in found.candidates(_page(via))
        ]
        candidates: dict[Any, Any] = {}
        for key, special in every:
            candidates.setdefault(key, special)
        entries = iter(every)
        each: list[tuple[Any, UriCandidate | None]] = [
            next(entries) if result is _ADDED else (result, None) for result in results
        ]
        invalid = [uri for uri, result in zip(given, results, strict=True) if result is Admission.INVALID]
        return Batch(candidates, [], invalid, each, batch.reasons, [])

    def _place(self, found: Any, now: float, via: CrawlUri | None) -> int:
        """Put new URIs on their queues; return their number."""
        assert self._turns.plain is not None
        return self._turns.plain.place(found, _page(via), now)

    # -- by the kernel's turns

    def parts(self, admits_links: Callable[[], bool]) -> AdmissionParts:
        """Return the parts by which the kernel places URIs, and admits links if `admits_links` says that it may."""
        tables, queues = self._tables, self._tables.queues
        of_tables = queues.ids, queues.find_or_create, tables.pending.insert
        return AdmissionParts(self._kernel, self._candidates.authority, self._kind, admits_links, *of_tables)

    def _kind(self) -> tuple[bytes, int, int, bool]:
        """Return `AdmissionParts.kind`."""
        in_force, kept = self._tables.in_force, self._tables.urls is not None
        rank = keys.rank.pack(NORMAL, PRIORITY_ZERO, in_force.constant_cost, 0)[_RANK]
        flip = uri_order.arrival(0, lifo=in_force.base.lifo)  # ordinal ^ flip copies `uri_order.arrival`
        return rank, flip, in_force.base.per_queue_concurrency, kept

    def admits_links(self) -> bool:
        """Return whether the kernel may admit links by itself, as far as limits have no say."""
        return not self._tables.former_assignments and self._candidates.are_simple()

    # -- one by one

    def begin_to_gather(self, uri: str | CrawlUri, now: float, calls: Calls) -> Admission | None:
        """Admit a URI, and let `gather` answer calls from then on; None if it is no plain one, or may not be gathered.

        What was gathered before is on its queues. Raises PolicyError, with nothing changed.
        """
        if not self._may_gather():
            return None
        put = self._tables.env.seen.put
        self._kernel.begin_to_gather(MOST_GATHERED, calls, self._candidates.authority, put, _ADDED, _DUPLICATE)
        admission: Admission | None = self._kernel.gather(uri, now)
        return admission

    def _may_gather(self) -> bool:
        """Return whether a URI may be placed on its queue later, as of now, and nobody could tell the difference.

        Nothing of this changes while URIs are gathered: they are placed before any other call.
        """
        tables = self._tables
        in_force, counters = tables.in_force, tables.counters
        return (
            counters.queued > 0  # else the state of the crawl may change
            and counters.state is CrawlState.RUNNING
            and in_force.frontier.hold_queues
            and not in_force.has_limits
            and not in_force.counts_links
            and not tables.former_assignments
            and tables.urls is None
            and tables.rotation.on_move is None
            and self._candidates.are_simple()
        )

    def place_gathered(self) -> tuple[float, int] | None:
        """Put the URIs that were gathered on their queues, in the order in which they were scheduled.

        Return the time and the number of the calls that the kernel has answered; None if it has answered none.
        """
        gathered = self._kernel.gathered()
        if gathered is None:
            return None
        found, *of_calls = gathered
        if found is not None:
            new = self._place(found, 0.0, None)  # each has its own time
            self._tables.count_found(new)
            self._tables.counters.duplicates += found.given - new
        return of_calls[0], of_calls[1]

    def results(self, batch: PlainBatch) -> list[Admission]:
        """Return the result for each URI of a batch that was admitted."""
        results: list[Admission] = batch.uris.results(Admission.ADDED, Admission.DUPLICATE, Admission.INVALID)
        return results


class _OwnPlace(Exception):
    """A URI has a directive or a precedence, a date or no fingerprint: the Python engine reads and places its batch."""


def _page(via: CrawlUri | None) -> tuple[str, str] | None:
    """Return the URL of a page and the hops of its links."""
    return None if via is None else (via.url, link_hops(via))


def _prior(short: str, inverted: int) -> CrawlUri | None:
    """Return a URI with a priority, given in its inverted form; None for that of a URL."""
    return None if inverted == PRIORITY_ZERO else CrawlUri(short, priority=uri_order.priority_of(inverted))


def _has_a_place(special: UriCandidate) -> bool:
    uri = special.uri
    if uri is not None and (uri.directive != NORMAL or uri.not_before is not None):
        return True
    return special.own_precedence is not None
