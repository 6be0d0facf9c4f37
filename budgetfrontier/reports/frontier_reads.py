"""The reads of a frontier for operators, as of its last commit: of a job, or of a partition by its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from heapq import nlargest, nsmallest
from itertools import dropwhile, islice
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from budgetfrontier.core.model import CrawlState, DeadLetter, QueueRecord, Run, StoredLease
from budgetfrontier.reports import over_time
from budgetfrontier.reports.audit_filter import BRIEF_URIS, MANY_URIS, coverage
from budgetfrontier.reports.audit_inverses import inverses
from budgetfrontier.reports.crawl_comparison import FetchedQueues, StoredQueues
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow, LetterId, Listed, Selection, Where
from budgetfrontier.reports.retired_list import RetiredList, retired_list, retired_queues
from budgetfrontier.reports.scope_check import OutOfScope, out_of_scope
from budgetfrontier.reports.status_tables import Statuses, statuses
from budgetfrontier.reports.work_list import Raised, WorkList
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.rules.verdict import process_line
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import parse_match, unknown_keys
from budgetfrontier.storage import group_listing, quota_use, seed_list
from budgetfrontier.storage.group_listing import GroupRow, GroupsListed
from budgetfrontier.storage.label_totals import LabelTotals, label_totals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report, report_head
from budgetfrontier.storage.seed_list import ListedSeed
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.storage.view import View

if TYPE_CHECKING:
    from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
    from budgetfrontier.reports.trap_list import Suspect
    from budgetfrontier.storage.records import QueueAmounts

BRIEF_ENTRIES = 5000
"""Entries of the audit that are looked through for a page."""
_NAMES = 100_000  # of groups, kept for a listing
_COUNTED = 10_000  # queues between two reports of progress


class _CountedView(View):
    """A view that tells how far a pass over all queues has come."""

    def __init__(self, view: View, progress: Callable[[float], None]) -> None:
        super().__init__(view.txn, view.db, view.folder, view.now)
        self._progress = progress

    def stored_queues(self) -> Iterator[QueueRecord]:
        total = self.counters().queues or 1
        for number, queue in enumerate(super().stored_queues()):
            if not number % _COUNTED:
                self._progress(min(number / total, 1.0))
            yield queue


class FrontierReads:
    """The reads of one frontier, as `CrawlOperator` has them. A context manager that opens it when it is read."""

    def __init__(
        self,
        job: str,
        path: Path,
        *,
        reader: Reader | None = None,
        brief: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Read the frontier at `path`; `job` stands for it in commands.

        `brief`: look through the newest entries of the audit only, as for a page that is read again and again.
        `progress` takes the share of queues that a dry run, or the search for traps, has passed.
        """
        self.job, self.path = job, path
        self._reader, self._brief, self._progress = reader, brief, progress

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    @property
    def reader(self) -> Reader:
        """The reader of the frontier."""
        if self._reader is None:
            self._reader = Reader(self.path)
        return self._reader

    @property
    def settings(self) -> Settings:
        """The settings in force, without the adjustments."""
        return self.reader.settings

    # -- the whole frontier

    def head(self) -> Report:
        """Return the report without its queues. O(1)."""
        with self.reader.view() as view:
            return report_head(view, self.path, generated=view.now())

    def process_line(self) -> str:
        """Return the line on the process that runs the crawl."""
        return process_line(self.head().standing)

    def is_terminated(self) -> bool:
        """Return whether the crawl was terminated."""
        return self.reader.summary().state is CrawlState.TERMINATED

    def queue_count(self) -> int:
        """Return the number of queues."""
        return sum(self.reader.summary().queues.values())

    def scan(self) -> AbstractContextManager[tuple[Report, Iterator[QueueRecord]]]:
        """Hold one snapshot until the end of the `with` block, as `Reader.scan`."""
        return self.reader.scan()

    def runs(self) -> list[Run]:
        """Return the runs, newest last."""
        return self.reader.runs()

    def series(self, since: float, now: float) -> list[list[SeriesRow]]:
        """Return the totals of a time until now. O(rows)."""
        with self.reader.view() as view:
            return [over_time.read(view, since, now)]

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time."""
        return self.reader.busiest(since, until)

    def held(self) -> Held:
        """Return the holdings of all queues, for forecasts. O(queues)."""
        with self.reader.view() as view:
            return over_time.held(view)

    def seeds(self) -> Iterator[ListedSeed]:
        """Yield the list of seeds, from one snapshot."""
        with self.reader.view() as view:
            yield from seed_list.listed(view)

    def unlisted(self, urls: Sequence[str]) -> set[str]:
        """Return which of some URLs are not in the list of seeds."""
        with self.reader.view() as view:
            return seed_list.unlisted(view, urls)

    # -- groups of queues

    def groups(self, limit: int) -> GroupsListed:
        """Return the states of all groups, and `limit` of them, the fullest first. O(groups)."""
        with self.reader.view() as view:
            return group_listing.listed(view, view.now(), limit)

    def group_of(self, queue: QueueRecord) -> GroupRow | None:
        """Return the group of a queue; None if it belongs to none."""
        with self.reader.view() as view:
            return group_listing.group_of(view, queue, view.now())

    def quotas_of(self, queue: QueueRecord) -> list[QuotaUse]:
        """Return the use of each limit of a quota that holds for a queue's next URI."""
        with self.reader.view() as view:
            return quota_use.of_queue(view, queue)

    def group_names(self) -> Callable[[QueueRecord], str | None] | None:
        """Return the function that returns the name of a queue's group; None if there is no group."""
        with self.reader.view() as view:
            if not view.counters().groups:
                return None

        @lru_cache(_NAMES)
        def named(group_id: int) -> str | None:
            with self.reader.view() as view:
                return group_listing.name_of(view, group_id)

        return lambda queue: named(queue.group)

    # -- listings

    def sorted_queues(
        self, selection: Selection, *, sort: str, reverse: bool, end: int | None
    ) -> Iterator[tuple[QueueRecord, Raised | None]]:
        """Yield the selected queues, sorted. Memory: the sort keys of all, or `end` queues."""
        key, fits, over_budget = attrgetter(sort), selection.test(), selection.over_budget
        states = None if selection.states is None else frozenset(selection.states)
        with self.reader.view() as view:
            in_group = group_listing.in_groups(view, selection.group)

            def test(queue: QueueRecord) -> bool:
                return fits(queue) and in_group(queue)

            if end is None:
                chosen = self.reader.sorted_queues(
                    key, reverse=reverse, where=test, states=states, over_budget=over_budget
                )
            else:
                found = filter(test, self.reader.queues(states, over_budget=over_budget))
                chosen = iter((nlargest if reverse else nsmallest)(end, found, key=key))
            raised = WorkList(view).raised if selection.raised else None
            for queue in chosen:
                yield queue, raised and raised(queue)

    def audit_rows(
        self,
        key: str | None = None,
        *,
        where: Where | None = None,
        before: int = 0,
        name: Callable[[int], int | str] = int,
    ) -> Iterator[AuditRow]:
        """Yield the audit, newest first, read as it is asked for; `name` returns the name of an entry by its number."""
        with self.reader.view() as view:
            covers = None if key is None else coverage(view, key, looked_at=BRIEF_URIS if self._brief else MANY_URIS)
            found = inverses(view.newest_commands(), name)
            if before:
                found = dropwhile(lambda pair: pair[0].id >= before, found)
            for entry, inverse in islice(found, BRIEF_ENTRIES if self._brief else None):
                if where is not None and not where(entry):
                    continue
                how = covers and covers(entry)
                if covers is None or how:
                    yield AuditRow(name(entry.id), entry, covers=how, inverse=inverse)

    def outcomes(self, rows: Sequence[AuditRow]) -> Mapping[int | str, AdjustmentOutcome]:
        """Return the outcomes of those audit entries that changed adjustments, as of the last commit."""
        from budgetfrontier.reports.adjustment_outcomes import outcomes_of

        with self.reader.view() as view:
            return outcomes_of(view, {row.id: row.entry for row in rows}, view.now())

    def adjustments(self) -> list[AdjustmentRow]:
        """Return the adjustments in force, in the order in which they apply."""
        with self.reader.view() as view:
            return [
                AdjustmentRow(one.id or None, one.match, one.set, view.audit_entry(one.id))
                for one in view.adjustments()
            ]

    def quotas(self) -> list[QuotaUse]:
        """Return the use of each limit of a quota, the fullest first."""
        with self.reader.view() as view:
            return quota_use.fullest(view)

    def out_of_scope(self) -> OutOfScope:
        """Return which waiting URIs the stored scope would disregard at their turns. O(URIs)."""
        with self.reader.view() as view:
            return out_of_scope(view)

    def labels(self) -> list[LabelTotals]:
        """Return the fetches and the seeds of each label, a few thousand labels at the most."""
        with self.reader.view() as view:
            return label_totals(view)

    def retired(self, match: str | None, count: int) -> RetiredList:
        """Return `count` retired queues that match in the order of their retirement, and some that retire again."""
        with self.reader.view() as view:
            chosen = filter(Selection(match=match).test(), retired_queues(view))
            return retired_list(view, self.job, islice(chosen, count), count)

    def leases(self, key: str | None = None) -> Listed[StoredLease]:
        """Return the leases that were out at the last commit."""
        return Listed([lease for lease in self.reader.leases() if key in (None, lease.queue)])

    def dead_letters(self) -> Listed[tuple[int | LetterId, DeadLetter]]:
        """Return the dead letters with their ids, oldest first."""
        return Listed([(letter.id, letter) for letter in self.reader.dead_letters()])

    def unknown_letters(self, ids: Sequence[int]) -> list[int]:
        """Return the ids that are of no dead letter."""
        with self.reader.view() as view:
            return [number for number in dict.fromkeys(ids) if not view.has_dead_letter(number)]

    def statuses(self, selection: Selection, *, status: str = "", limit: int | None = None) -> Statuses:
        """Return the answers of the selected queues, those with most of a status first."""
        with self.reader.view() as view:
            return statuses(view, selection.test_or_all(), status=status, limit=limit)

    @contextmanager
    def fetched_queues(self) -> Iterator[FetchedQueues]:
        """Hold one snapshot of the queues from which something was fetched."""
        with self.reader.view() as view:
            yield StoredQueues(view)

    def amounts(self) -> Iterator[QueueAmounts]:
        """Yield the amounts of every queue, from one snapshot."""
        with self.reader.view() as view:
            yield from view.amounts()

    def traps(self, selection: Selection, limit: int | None) -> list[Suspect]:
        """Return the selected queues that look like crawler traps, the most suspicious first."""
        from budgetfrontier.reports.trap_list import suspects

        with self._counted() as view:
            test = None if selection.is_all else selection.test()
            return suspects(view, test, limit=limit, now=view.now())

    def unknown_keys(self, match: str) -> list[str]:
        """Return the keys that a pattern lists and no queue has."""
        with self.reader.view() as view:
            return unknown_keys(parse_match(match), view.find_queue)

    @contextmanager
    def _counted(self) -> Iterator[View]:
        with self.reader.view() as view:
            yield view if self._progress is None else _CountedView(view, self._progress)
