"""A job as operators look at it: a crawl of one partition, whose files are here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from heapq import nlargest, nsmallest
from itertools import dropwhile, islice
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from budgetfrontier.core.model import CrawlState, DeadLetter, QueueRecord, Run, StoredLease
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.operators import (
    AdjustmentRow,
    Applied,
    AuditRow,
    CrawlOverview,
    LetterId,
    Listed,
    NoSuchQueue,
    OperatorCommand,
    Selection,
    Where,
    matches_nothing,
)
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import parse_match, unknown_keys
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report, report_head
from budgetfrontier.storage.view import PendingUri, View

if TYPE_CHECKING:
    from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
    from budgetfrontier.reports.crawl_comparison import FetchedQueue
    from budgetfrontier.reports.crawl_log import CrawlLogLine
    from budgetfrontier.reports.explanation import Explanation
    from budgetfrontier.reports.over_time import Between, Series
    from budgetfrontier.reports.retired_list import RetiredList
    from budgetfrontier.reports.status_tables import Statuses
    from budgetfrontier.reports.trap_list import Suspect
    from budgetfrontier.reports.work_list import Raised
    from budgetfrontier.rules.forecasts import Forecast
    from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step
    from budgetfrontier.storage.group_listing import GroupRow, GroupsListed
    from budgetfrontier.storage.label_totals import LabelTotals
    from budgetfrontier.storage.quota_use import QuotaUse
    from budgetfrontier.storage.seed_list import ListedSeed
    from budgetfrontier.storage.series import Busiest

BRIEF_ENTRIES = 5000
"""Entries of the audit that are looked through for a page."""
_MOST_NAMED = 10
_NAMES = 100_000  # of groups, kept for a listing
_COUNTED = 10_000  # queues between two reports of progress
LEFT = (
    ", and no process goes on with it: the next crawl does, and the next command that changes something (but for pause "
    "and terminate), before anything else"
)
NO_LOG = "unknown: there is no {log}; `budgetfrontier crawl` writes one, with --frontier in the folder of its own job"
MOVED = "unknown: there is no {log}, it was moved or deleted, or is not part of a backup: a log that was moved tells"
LATE = "unknown: {log} {begins}, and attempts were made before that: a log that was moved tells"
PART = "rows are those of {log} alone, which {begins}; attempts were made before that: a log that was moved has them"


class _CountedView(View):
    """A view that tells how far a pass over all queues has come."""

    def __init__(self, view: View, progress: Callable[[float], None]) -> None:
        super().__init__(view.txn, view.db, view.folder)
        self._progress = progress

    def stored_queues(self) -> Iterator[QueueRecord]:
        total = self.counters().queues or 1
        for number, queue in enumerate(super().stored_queues()):
            if not number % _COUNTED:
                self._progress(min(number / total, 1.0))
            yield queue


class JobOperator:
    """A job, running or stopped, as a `CrawlOperator`. A context manager; its frontier is opened when it is read."""

    missing: Collection[int] = ()

    def __init__(
        self,
        folder: Path,
        path: Path,
        *,
        reader: Reader | None = None,
        timeout: float | None = 10.0,
        brief: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Look at the job in a folder, whose frontier is at `path`.

        `timeout`: seconds that a running engine may take to answer a command, None: any. `brief`: look
        through the newest entries of the audit only, as for a page that is read again and again. `progress` takes the
        share of queues that a dry run has passed.
        """
        self.job = str(folder)
        self.path = path
        self.log = folder / "logs" / "crawl.log"
        self._timeout, self._brief, self._progress = timeout, brief, progress
        self._reader = reader

    def __repr__(self) -> str:
        return f"<JobOperator of {self.job}>"

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

    def unanswered(self) -> str:
        """Return "": the frontier itself is read."""
        return ""

    # -- the whole crawl

    def head(self) -> Report:
        """Return the report without its queues. O(1)."""
        with self.reader.view() as view:
            return report_head(view, self.path, generated=time.time())

    def is_terminated(self) -> bool:
        """Return whether the crawl was terminated."""
        return self.reader.summary().state is CrawlState.TERMINATED

    def scan(self) -> AbstractContextManager[tuple[Report, Iterator[QueueRecord]]]:
        """Hold one snapshot until the end of the `with` block, as `Reader.scan`."""
        return self.reader.scan()

    def overview(self, limit: int, *, all_states: bool = False, forecast: bool = False) -> CrawlOverview:
        """Return the report and its aggregates, from one pass over the queues."""
        from budgetfrontier.reports import over_time
        from budgetfrontier.reports.overview import Overview
        from budgetfrontier.rules.forecasts import Holdings

        found = Overview(limit, all_states=all_states)
        if not forecast:
            return CrawlOverview(found.read(self.reader), found)
        holdings, now = Holdings(), time.time()
        head = found.read(
            self.reader,
            lambda view, queues: holdings.through(
                queues, over_time.terms_of(view, now), group_listing.terms_of(view, now)
            ),
        )
        with self.reader.view() as view:
            return CrawlOverview(head, found, over_time.overview(view, self.path, holdings.held, time.time()))

    def stopped(self) -> str:
        """Return that no process runs the job, and the command that continues it; "" if one does."""
        from budgetfrontier.rules.verdict import opener, reached_limit
        from budgetfrontier.storage.start_command import AGAIN, start_command

        process = self.reader.process()
        if opens := opener(process):
            return f"no process has this crawl open; {opens}"
        if process.alive:
            return ""
        stop = process.last_stop
        start = start_command(self.job, "" if stop is None else stop.program)
        first = f"raise {limit} (it is reached), then " if (limit := reached_limit(stop)) else ""
        return f"no process runs this crawl; to go on: {first}{start or AGAIN}"

    def used_up(self) -> str:
        """Return "": a job is paused once a limit is reached."""
        return ""

    def runs(self) -> list[Run]:
        """Return the runs, newest last."""
        return self.reader.runs()

    def between(self, since: float, now: float, **figures: Any) -> Between:
        """Return the function of what happened between two times from `since` on."""
        from budgetfrontier.reports import over_time

        return over_time.between(*self.series(since, now), **figures)

    def series(self, since: float, now: float) -> Series:
        """Return the totals of a time until now. O(rows)."""
        from budgetfrontier.reports import over_time

        with self.reader.view() as view:
            return [over_time.read(view, since, now)]

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time."""
        return self.reader.busiest(since, until)

    def forecasts(self, now: float, length: float) -> list[Forecast]:
        """Return when each bound would end the crawl, from one snapshot."""
        from budgetfrontier.reports import over_time

        with self.reader.view() as view:
            return over_time.forecast_rows(
                over_time.between(over_time.read(view, now - length, now)),
                view.summary(),
                over_time.held(view),
                over_time.limits_left(view, self.path, now),
                now=now,
                length=length,
            )

    def seeds(self) -> Iterator[ListedSeed]:
        """Yield the list of seeds, from one snapshot."""
        from budgetfrontier.storage.seed_list import listed

        with self.reader.view() as view:
            yield from listed(view)

    def unlisted(self, urls: Sequence[str]) -> set[str]:
        """Return which of some URLs are not in the list of seeds."""
        from budgetfrontier.storage.seed_list import unlisted

        with self.reader.view() as view:
            return unlisted(view, urls)

    def log_lines(self, since: float | None, *, whole: bool) -> tuple[Iterator[CrawlLogLine] | None, str]:
        """Return the lines of logs/crawl.log from a time on; None, and why, if they are not there."""
        from budgetfrontier.reports import crawl_log
        from budgetfrontier.reports.log_coverage import lacks_beginning
        from budgetfrontier.rules.run_history import CRAWL

        runs = self.reader.runs()
        if not self.log.is_file():
            is_moved = any(run.program == CRAWL and run.leased for run in runs)
            return None, (MOVED if is_moved else NO_LOG).format(log=self.log)
        first = crawl_log.first_time(self.log)
        with self.reader.view() as view:
            is_late = lacks_beginning(view, runs, first, since, time.time())
        begins = f"begins at {first}" if first else "has no line yet"
        if is_late and whole:
            return None, LATE.format(log=self.log, begins=begins)
        return crawl_log.entries(self.log, since=since or 0.0), PART.format(log=self.log, begins=begins) * is_late

    def last_statuses(self, urls: Collection[str]) -> Mapping[str, int]:
        """Return the last status of URLs in logs/crawl.log."""
        from budgetfrontier.reports.log_search import last_statuses

        return last_statuses(self.log, urls) or {}

    # -- groups of queues

    def groups(self, limit: int) -> GroupsListed:
        """Return the states of all groups, and `limit` of them, the fullest first. O(groups)."""
        with self.reader.view() as view:
            return group_listing.listed(view, time.time(), limit)

    def group_of(self, queue: QueueRecord) -> GroupRow | None:
        """Return the group of a queue; None if it belongs to none."""
        with self.reader.view() as view:
            return group_listing.group_of(view, queue, time.time())

    def quotas_of(self, queue: QueueRecord) -> list[QuotaUse]:
        """Return the use of each limit of a quota that holds for a queue's next URI."""
        from budgetfrontier.storage.quota_use import of_queue

        with self.reader.view() as view:
            return of_queue(view, queue)

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
        from budgetfrontier.reports.work_list import WorkList

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

    def audit(
        self, *, key: str | None = None, where: Where | None = None, count: int | None = None, before: int = 0
    ) -> Listed[AuditRow]:
        """Return the audit, newest first, read as it is asked for."""
        return Listed(self._audit(key, where, before))

    def _audit(self, key: str | None, where: Where | None, before: int) -> Iterator[AuditRow]:
        from budgetfrontier.reports.audit_filter import BRIEF_URIS, MANY_URIS, coverage
        from budgetfrontier.reports.audit_inverses import inverses

        with self.reader.view() as view:
            covers = None if key is None else coverage(view, key, looked_at=BRIEF_URIS if self._brief else MANY_URIS)
            found = inverses(view.newest_commands())
            if before:
                found = dropwhile(lambda pair: pair[0].id >= before, found)
            for entry, inverse in islice(found, BRIEF_ENTRIES if self._brief else None):
                if where is not None and not where(entry):
                    continue
                how = covers and covers(entry)
                if covers is None or how:
                    yield AuditRow(entry.id, entry, covers=how, inverse=inverse)

    def outcomes(self, rows: Sequence[AuditRow]) -> Mapping[int | str, AdjustmentOutcome]:
        """Return the outcomes of those audit entries that changed adjustments, as of the last commit."""
        from budgetfrontier.reports.adjustment_outcomes import outcomes_of

        with self.reader.view() as view:
            return outcomes_of(view, {row.id: row.entry for row in rows}, time.time())

    def undo_refusals(self, rows: Sequence[AuditRow]) -> Mapping[int | str, str]:
        """Return by id why the undo of audit entries would be refused, of those of which it would be."""
        from budgetfrontier.engine.commands.undo_checks import refusal

        with self.reader.view() as view:
            in_force = view.adjustments()
            found = {row.id: refusal(view, row.entry, in_force) for row in rows if row.inverse}
        return {name: why for name, why in found.items() if why}

    def in_progress(self) -> str:
        """Return the command in progress, its progress, and what goes on with it if no process does, in words."""
        begun = self.reader.in_progress()
        if begun is None:
            return ""
        from budgetfrontier.engine.remote import describe_progress

        return describe_progress(*begun) + ("" if self.reader.process().alive else LEFT)

    def adjustments(self) -> list[AdjustmentRow]:
        """Return the adjustments in force, in the order in which they apply."""
        with self.reader.view() as view:
            return [
                AdjustmentRow(one.id or None, one.match, one.set, view.audit_entry(one.id))
                for one in view.adjustments()
            ]

    def quotas(self) -> list[QuotaUse]:
        """Return the use of each limit of a quota, the fullest first."""
        from budgetfrontier.storage.quota_use import fullest

        with self.reader.view() as view:
            return fullest(view)

    def labels(self) -> list[LabelTotals]:
        """Return the fetches and the seeds of each label, a few thousand labels at the most."""
        from budgetfrontier.storage.label_totals import label_totals

        with self.reader.view() as view:
            return label_totals(view)

    def retired(self, match: str | None, count: int) -> RetiredList:
        """Return `count` retired queues that match in the order of their retirement, and some that retire again."""
        from budgetfrontier.reports.retired_list import retired_list, retired_queues

        with self.reader.view() as view:
            chosen = filter(Selection(match=match).test(), retired_queues(view))
            return retired_list(view, self.job, islice(chosen, count), count)

    def leases(self, key: str | None = None) -> Listed[StoredLease]:
        """Return the leases that were out at the last commit."""
        return Listed([lease for lease in self.reader.leases() if key in (None, lease.queue)])

    def dead_letters(self) -> Listed[tuple[int | LetterId, DeadLetter]]:
        """Return the dead letters with their ids, oldest first."""
        return Listed([(letter.id, letter) for letter in self.reader.dead_letters()])

    def statuses(self, selection: Selection, *, status: str = "", limit: int | None = None) -> Statuses:
        """Return the answers of the selected queues, those with most of a status first."""
        from budgetfrontier.reports.status_tables import statuses

        with self.reader.view() as view:
            return statuses(view, selection.test_or_all(), status=status, limit=limit)

    def fetched_queues(self) -> Iterator[FetchedQueue]:
        """Yield the fetches of each queue, from one snapshot."""
        from budgetfrontier.reports.crawl_comparison import fetched_queues

        with self.reader.view() as view:
            yield from (found for _, found in fetched_queues(view))

    def traps(self, selection: Selection, limit: int | None) -> list[Suspect]:
        """Return the selected queues that look like crawler traps, the most suspicious first."""
        from budgetfrontier.reports.trap_list import suspects

        with self._counted() as view:
            test = None if selection.is_all else selection.test()
            return suspects(view, test, limit=limit, now=time.time())

    # -- one queue or URL

    def queue(self, key: str, *, limit: int | None = 1, spread: bool = False) -> tuple[QueueRecord, list[PendingUri]]:
        """Return the queue that a key surely means, with some of its URIs. Raises NoSuchQueue."""
        from budgetfrontier.reports.near_queues import meant
        from budgetfrontier.reports.queue_sample import spread as spread_over

        record = self.reader.queue(key)
        with self.reader.view() as view:
            if record is None and (name := meant(view, key)) is not None:
                record = self.reader.queue(name)
            if record is None:
                raise self._no_queue(key)
            if spread:
                return record, spread_over(view, record, limit or record.queued)
        return record, self.reader.pending(record.queue, limit)

    def key_of(self, key: str) -> str:
        """Return the key of a queue that is given in any spelling of its host. Raises NoSuchQueue."""
        with self.reader.view() as view:
            name = view.named(key)
            if view.find_queue(name) is None:
                raise self._no_queue(key)
        return name

    def unknown_keys(self, match: str) -> list[str]:
        """Return the keys that a pattern lists and no queue has."""
        with self.reader.view() as view:
            return unknown_keys(parse_match(match), view.find_queue)

    def _no_queue(self, key: str) -> NoSuchQueue:
        from budgetfrontier.reports.near_queues import did_you_mean

        with self.reader.view() as view:
            return NoSuchQueue(key, did_you_mean(view, key), self.job)

    def explain(
        self, target: str, *, log: Path | None = None, progress: Callable[[int], None] | None = None
    ) -> Explanation:
        """Explain why a URL or a queue is not being crawled, by the scope and the log of the job, too."""
        from budgetfrontier.crawler.fetch.refusals import refusal
        from budgetfrontier.reports.explain import explain
        from budgetfrontier.reports.log_search import past_of
        from budgetfrontier.reports.scope_check import scope_verdict

        return explain(
            self.reader,
            target,
            job=self.job,
            scope=partial(scope_verdict, self.reader),
            past=partial(past_of, log=log or self.log, progress=progress),
            refusal=partial(refusal, self.reader.settings),
        )

    # -- commands

    def dry_run(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the effect that a command would have, as of the last commit."""
        from budgetfrontier.reports import dry_runs

        with self._counted() as view:
            effect = dry_runs.dry_run(view, op, args)
            return dry_runs.with_end(op, args, effect, view.summary())

    @contextmanager
    def _counted(self) -> Iterator[View]:
        with self.reader.view() as view:
            yield view if self._progress is None else _CountedView(view, self._progress)

    def simulate(
        self,
        asked: SimulationRequest,
        *,
        say: Callable[[str], object] = lambda text: None,
        steps: Callable[[Sequence[Step]], object] = lambda done: None,
    ) -> list[Simulated]:
        """Simulate how the job goes on, each time in a process of its own."""
        from budgetfrontier.tools.simulation.job_simulation import simulate

        for match, settings in asked.changes:
            if not self.dry_run("adjust", {"match": match, "set": settings})["matched"]:
                say(matches_nothing(match))
        return simulate(self.reader, asked, say, steps)

    def apply(self, command: OperatorCommand) -> Applied:
        """Apply a command, by the engine that runs, or in this process if there is none.

        The queues that an adjustment matches, and what it promises, are found before, as of the last commit: no engine
        waits for that.
        """
        from budgetfrontier.engine.remote import steer
        from budgetfrontier.reports import dry_runs

        args = command.args
        if command.op in (*dry_runs.OF_ADJUSTMENTS, "undo"):
            with self._counted() as view:
                args = args | dry_runs.figures(view, command.op, args)
        self.close()  # a process cannot read and write one LMDB environment at once
        entry = steer(
            self.path, command.op, args, who=command.who, reason=command.reason, timeout=self._timeout,
            line=command.line,
        )  # fmt: skip
        return Applied(entry, [entry.effect])

    def check_letters(self, ids: Sequence[Any]) -> None:
        """Raise FrontierError if any of these is the id of no dead letter."""
        with self.reader.view() as view:
            unknown = [number for number in dict.fromkeys(ids) if not view.has_dead_letter(number)]
        if unknown:
            named = ", ".join(map(str, unknown[:_MOST_NAMED])) + ", ..." * (len(unknown) > _MOST_NAMED)
            listing = shlex.join(("budgetfrontier", "dead-letters", self.job))
            raise FrontierError(f"there is no dead letter {named}; `{listing}` lists them, and nothing was changed")
