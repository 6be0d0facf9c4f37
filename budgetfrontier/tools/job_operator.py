"""A job as operators look at it: a crawl of one partition, whose files are here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import over_time
from budgetfrontier.reports.frontier_reads import FrontierReads
from budgetfrontier.reports.operators import (
    Applied,
    AuditRow,
    CrawlOverview,
    Listed,
    NoSuchQueue,
    OperatorCommand,
    Where,
    matches_nothing,
)
from budgetfrontier.rules.undoing import ADJUSTING
from budgetfrontier.rules.verdict import are_leases_held
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.process import process
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import PendingUri

if TYPE_CHECKING:
    from budgetfrontier.reports.crawl_log import CrawlLogLine
    from budgetfrontier.reports.explanation import Explanation
    from budgetfrontier.rules.forecasts import Forecast
    from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step

_MOST_NAMED = 10
LEFT = (
    ", and no process goes on with it: the next crawl does, step by step while it fetches, and the next command that "
    "changes something (but for pause and terminate), before anything else"
)
NO_LOG = "unknown: there is no {log}; `budgetfrontier crawl` writes one, with --frontier in the folder of its own job"
MOVED = "unknown: there is no {log}, it was moved or deleted, or is not part of a backup: a log that was moved tells"
LATE = "unknown: {log} {begins}, and attempts were made before that: a log that was moved tells"
PART = "rows are those of {log} alone, which {begins}; attempts were made before that: a log that was moved has them"


class JobOperator(FrontierReads):
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

        `timeout`: seconds that a running engine may take to answer a command, None: any. The others are those of
        `FrontierReads`.
        """
        super().__init__(str(folder), path, reader=reader, brief=brief, progress=progress)
        self.log = folder / "logs" / "crawl.log"
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<JobOperator of {self.job}>"

    def unanswered(self) -> str:
        """Return "": the frontier itself is read."""
        return ""

    # -- the whole crawl

    def overview(self, limit: int, *, all_states: bool = False, forecast: bool = False) -> CrawlOverview:
        """Return the report and its aggregates, from one pass over the queues."""
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

    def forecasts(self, now: float, length: float) -> list[Forecast]:
        """Return when each bound would end the crawl, from one snapshot."""
        with self.reader.view() as view:
            return over_time.forecast_rows(
                over_time.between(over_time.read(view, now - length, now)),
                view.summary(),
                over_time.held(view),
                over_time.limits_left(view, self.path, now),
                now=now,
                length=length,
            )

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

    # -- the audit

    def audit(
        self, *, key: str | None = None, where: Where | None = None, count: int | None = None, before: int = 0
    ) -> Listed[AuditRow]:
        """Return the audit, newest first, read as it is asked for."""
        return Listed(self.audit_rows(key, where=where, before=before))

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
            totals, end = view.summary(), True
            if totals.in_process and not are_leases_held(process(view, self.path)):  # the next start takes them back
                totals.in_process, end = 0, op != "delete"
            return dry_runs.with_end(op, args, effect, totals if end else None)

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
        from budgetfrontier.engine import audit

        [entry] = self._given([command])
        audit.check(entry)
        return Applied(entry, [entry.effect])

    def apply_all(self, commands: Sequence[OperatorCommand]) -> list[Applied]:
        """Apply commands all at once, so that none waits for the commit of the one before."""
        return [
            Applied(None, [], refused=entry.error) if entry.error else Applied(entry, [entry.effect])
            for entry in self._given(commands)
        ]

    def _given(self, commands: Sequence[OperatorCommand]) -> list[AuditEntry]:
        """Give commands to the frontier; return their audit entries."""
        from budgetfrontier.engine.commands.mailbox import Command
        from budgetfrontier.engine.remote import steer_all
        from budgetfrontier.reports import dry_runs

        found: list[Command] = []
        for command in commands:
            args = command.args
            if command.op in (*ADJUSTING, "undo"):
                with self._counted() as view:
                    args = args | dry_runs.figures(view, command.op, args, preceding=len(found))
            found.append(Command(command.op, args, command.who, command.reason, command.line))
        self.close()  # a process cannot read and write one LMDB environment at once
        return steer_all(self.path, found, timeout=self._timeout)

    def check_letters(self, ids: Sequence[Any]) -> None:
        """Raise FrontierError if any of these is the id of no dead letter."""
        if unknown := self.unknown_letters(ids):
            named = ", ".join(map(str, unknown[:_MOST_NAMED])) + ", ..." * (len(unknown) > _MOST_NAMED)
            listing = shlex.join(("budgetfrontier", "dead-letters", self.job))
            raise FrontierError(f"there is no dead letter {named}; `{listing}` lists them, and nothing was changed")
