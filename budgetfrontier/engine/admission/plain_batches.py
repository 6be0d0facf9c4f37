"""Batches whose URIs all have the same cost and place, read and packed by the compiled kernel.

The results, and every record that is written, are those of `Candidates.read` and `Placer`: tests/engine/admission/
test_kernel.py compares them. Needs half of the instructions of a page of links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.model import Admission, CrawlUri, Tally
from budgetfrontier.engine.admission import candidates as candidates_read
from budgetfrontier.engine.admission import seen as seen_table
from budgetfrontier.engine.admission.candidates import Candidates, Special
from budgetfrontier.engine.admission.seen import SeenTable
from budgetfrontier.engine.native import SWITCH, kernel
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.rules import uri_order
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import link_hops, shorten

_RANK: Final = slice(0, 9)
"""The bytes of a rank before the arrival."""


class PlainBatch(NamedTuple):
    """A batch as the kernel has read it, and why some of its URIs are INVALID."""

    uris: Any
    given: int
    """URIs, also known and INVALID ones."""
    reasons: list[str]


class PlainBatches:
    """The reader and placer of such batches. It has the URLs admitted last in memory, as fingerprints."""

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
        )
        seen.on_forget = self._kernel.forget

    def read(self, batch: Sequence[Any], tally: Tally, via: CrawlUri | None) -> PlainBatch | None:
        """Call the policies for a batch, and count INVALID URIs; None if the Python engine has to read it.

        Raises PolicyError. Changes nothing.
        """
        if not self._candidates.are_simple():
            return None
        reasons: list[str] = []
        cost = self._tables.in_force.constant_cost

        def other(given: object) -> tuple[bytes, str, bytes, str] | None:
            """Return a URI that is not plain; None if it is INVALID."""
            try:
                fingerprint, special = self._candidates.prepare(given, via)
            except InvalidUrl as e:
                reasons.append(e.reason)
                return None
            if fingerprint is None or special.cost != cost or _has_a_place(special):
                raise _OwnPlace
            return fingerprint, special.queue, special.value, special.short

        try:
            found = self._kernel.read(batch if type(batch) is list else list(batch), self._candidates.authority, other)
        except _OwnPlace:
            return None
        except BaseException as e:
            _raise_panic(e)
            raise
        for reason in reasons:
            tally.refuse(reason)
        return PlainBatch(found, len(batch), reasons)

    def admit(self, batch: PlainBatch, tally: Tally, now: float, via: CrawlUri | None) -> None:
        """Admit the URIs of a batch that are new, and count all. Calls no policy."""
        found, given, reasons = batch
        tables = self._tables
        counters, base = tables.counters, tables.in_force.base
        if tables.rekeyed:
            self._turns.reassignment.arrive(now)
        try:
            found.record(tables.env.seen.put)
            rows = found.queues()
            queues = [tables.queues.find_or_create(key) for key, _, _ in rows]
            records, urls = found.records(
                [queue.id for queue in queues],
                keys.rank.pack(NORMAL, PRIORITY_ZERO, tables.in_force.constant_cost, 0)[_RANK],
                counters.ordinal,
                uri_order.arrival(0, lifo=base.lifo),  # ordinal ^ flip copies `uri_order.arrival`
                None if via is None else [shorten(via.url, key) for key, _, _ in rows],
                "" if via is None else link_hops(via),
                listed=tables.urls is not None,
            )
            self._kernel.remember(found)
        except BaseException as e:
            _raise_panic(e)
            raise
        new = len(records)
        counters.ordinal += new
        if new:
            tables.pending.insert(records, urls)
        for queue, (_, arrived, short) in zip(queues, rows, strict=True):
            self._turns.arrived(queue, arrived, short, base, None, now)
        for reason in reasons:
            counters.invalid_reasons[reason] = counters.invalid_reasons.get(reason, 0) + 1
        known = given - len(reasons) - new
        tally.added += new
        tally.duplicate += known
        counters.duplicates += known
        counters.scheduled += new

    def results(self, batch: PlainBatch) -> list[Admission]:
        """Return the result for each URI of a batch that was admitted."""
        results: list[Admission] = batch.uris.results(Admission.ADDED, Admission.DUPLICATE, Admission.INVALID)
        return results


class _OwnPlace(Exception):
    """A URI has a rank of its own, a date or no fingerprint: the Python engine reads and places its batch."""


def _has_a_place(special: Special) -> bool:
    uri = special.uri
    if uri is not None and (uri.directive != NORMAL or uri.priority != 0 or uri.not_before is not None):
        return True
    return special.own_precedence is not None


def _raise_panic(error: BaseException) -> None:
    """Raise FrontierError for a panic of the kernel, which PyO3 raises as no Exception."""
    if type(error).__name__ == "PanicException":
        raise FrontierError(f"the native kernel failed: {error}. {SWITCH}=python does without it") from error
