"""A crawl in partitions as a job of the console: the replies of the owners of its partitions, read when a page asks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.merging import numbers_as_text
from budgetfrontier.cluster.operators.partition_rows import PartitionRow
from budgetfrontier.core.model import Summary
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.reports import metrics, over_time
from budgetfrontier.reports.alert_state import AlertFiles
from budgetfrontier.reports.metrics import MetricsReading
from budgetfrontier.reports.operators import (
    Applied,
    AuditRow,
    CrawlOperator,
    LetterId,
    OperatorCommand,
    refuse_if_terminated,
    unknown_queues,
)
from budgetfrontier.reports.over_time import HOUR, Series
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.simulation_results import NO_SIMULATION
from budgetfrontier.rules.forecasts import Forecast
from budgetfrontier.rules.rates import Window
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import AlertSettings
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report
from budgetfrontier.tools.console import missing_partitions
from budgetfrontier.tools.console.changes_since import Since
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob, Gone, carried_out, slug_of
from budgetfrontier.tools.console.missing_partitions import OF_OTHERS, MissingPartitions
from budgetfrontier.tools.console.sampling import Sample
from budgetfrontier.tools.console.steer_process import SIMULATE, SteerLine, SteerOrder, discarded, nothing_more
from budgetfrontier.tools.console.totals_history import OverTimeOfJob
from budgetfrontier.tools.simulation.partitions_simulation import NO_STORE

FRESH = 4.0
"""Seconds for which the answers of the partitions are used again."""
EVERY = 60.0
"""Seconds between two looks at all queues, at least."""
LISTED = 20


class Current(NamedTuple):
    """The crawl as of a moment: its report without queues, its partitions, and why some do not answer."""

    when: float
    report: Report
    partitions: list[PartitionRow]
    missing: MissingPartitions
    happened: Window
    """The rates of the last hour."""


class Whole(NamedTuple):
    """The aggregates of all queues as of a moment."""

    when: float
    overview: Overview
    forecasts: list[Forecast]


NEWEST = 200
"""Commands of the audit that are compared, to see what has been given since a dry run."""
_T = TypeVar("_T")


class PartitionedJob(ConsoleJob):
    """A crawl in partitions. Its methods may be called from any thread, one at a time looks at the owners."""

    is_folder = False

    def __init__(
        self,
        url: str,
        owners: CrawlOwners,
        steersman: CrawlOwners | None = None,
        words: Sequence[str] = (),
        *,
        workers: Settings | None = None,
        alert_files: AlertFiles | None = None,
    ) -> None:
        """Show the crawl at a URL by its owners.

        `steersman` are these with a connection of their own, so that pages do not wait for commands. `words` stand for
        the crawl in commands. `workers` are the settings of its workers, for simulations and alerts, and
        `alert_files` those of the alerts, as whoever watches it keeps them.
        """
        super().__init__("", Path(url), Path(url))
        self._url, self._owners, self._words = url, owners, words
        self._workers, self._alert_files = workers, alert_files
        self._steered_by = steersman or owners
        self._looking = threading.Lock()
        self._steering = threading.Lock() if steersman else self._looking
        self._current: Current | None = None
        self._whole: Whole | None = None
        self._counted: Summary | None = None
        """The totals of the last reading of the metrics."""

    @property
    def slug(self) -> str:
        """Its name in the paths of the API: that of the crawl in the URL."""
        return slug_of(self._url.rpartition("/")[2])

    @property
    def words(self) -> list[str]:
        """The words that stand for it in commands."""
        return [*self._words]

    @property
    def title(self) -> str:
        """The name of the job for people."""
        return "crawl in partitions"

    @property
    def place(self) -> str:
        """The URL of the crawl."""
        return self._url

    @property
    def crawl(self) -> str:
        """The name of the crawl."""
        return "" if self._current is None else self._current.report.crawl

    def _over_time(self) -> OverTimeOfJob:
        return OverTimeOfJob(lambda since, now: self.look(lambda operator: _series(operator, since, now)), fresh=EVERY)

    def open_reader(self) -> Reader:
        """Raise Gone: its files are those of its workers."""
        raise Gone(f"{self._url} has no files here")

    def sample(self) -> Sample:
        """Return the latest totals received, or the first ones."""
        current = self._current or self.current()
        return Sample(current.when, 0, current.report.standing.process.last_commit or 0.0, current.report.totals)

    def sample_now(self) -> Sample:
        """Return the totals of the owners, a few seconds old at the most."""
        self.current()
        return self.sample()

    def current(self) -> Current:
        """Return the owners' reports, a few seconds old at the most.

        Raises ConnectionLost if none answers, or has published any.
        """
        with self._looking:
            now, current = time.time(), self._current
            if current is None or not 0 <= now - current.when < FRESH:
                operator, missing = ClusterOperator(self._owners.again()), MissingPartitions()
                found, series = operator.current(), _series(operator, now - HOUR, now)
                missing.add(*_missing(operator))
                happened = over_time.between(*series)(now - HOUR, now)
                if current is not None and current.missing.numbers != missing.numbers:
                    self._whole = None  # its forecasts name those that were missing
                self._current = current = Current(now, *found, missing, happened)
        missing_partitions.tell(current.missing.numbers, current.missing.sentence, current.missing.rest)
        return current

    def whole(self) -> Whole:
        """Return the aggregates of all queues, a minute old at the most."""
        with self._looking:
            now, whole = time.time(), self._whole
            if whole is None or not 0 <= now - whole.when < EVERY:
                operator = ClusterOperator(self._owners.again())
                found = operator.overview(LISTED)
                self._whole = whole = Whole(now, found.overview, operator.forecasts(now, HOUR))
            return whole

    def look(self, read: Callable[[CrawlOperator], _T]) -> _T:
        """Return the result of `read` for this crawl, with no partition missing yet."""
        with self._looking:
            operator = ClusterOperator(self._owners.again())
            try:
                return read(operator)
            finally:
                missing_partitions.tell(*_missing(operator))

    def metrics_reading(self) -> MetricsReading:
        """Return the metrics as owners tell them, or have published. Raises ConnectionLost if one has done neither."""

        def read(operator: CrawlOperator) -> MetricsReading:
            assert isinstance(operator, ClusterOperator)
            head, owners = operator.head(), operator.owners
            if owners.missing - owners.ages.keys():
                raise ConnectionLost(operator.unanswered())
            return metrics.of_partitions(head, len(owners.ages), self._counted if owners.ages else None)

        found = self.look(read)
        self._counted = found.standing.totals
        return found

    @property
    def why_no_simulation(self) -> str:
        """Why it cannot be simulated; "" if it can."""
        if self._workers is None:
            return NO_SIMULATION
        return NO_STORE if self._workers.cluster.snapshots is None else super().why_no_simulation

    @property
    def alert_files(self) -> AlertFiles | None:
        """The files of its alerts; None if it is not known where they are."""
        return self._alert_files

    @property
    def alert_settings(self) -> AlertSettings | None:
        """The settings of its alerts; None if they are not known here."""
        return None if self._workers is None else self._workers.alerts

    async def steer(self, order: SteerOrder) -> AsyncIterator[SteerLine]:
        """Carry an order out in a thread, a simulation in a process of its own."""
        if order.op != SIMULATE:
            yield await asyncio.to_thread(self._steered, order)
        elif self._workers is None:
            yield SteerLine(error=NO_SIMULATION)
        else:
            async for step in carried_out(replace(order, workers=self._workers.to_dict()), self.path):
                yield step

    def _steered(self, order: SteerOrder) -> SteerLine:
        try:
            with self._steering:
                operator = ClusterOperator(self._steered_by.again())
                refuse_if_terminated(operator, order.op)
                if order.op == "discard" and "ids" in order.args:
                    return discarded(operator, order)
                if order.args.get("ids") is not None:
                    order.args["ids"] = [*map(_letter, order.args["ids"])]
                    operator.check_letters(order.args["ids"])
                if order.op == "schedule" and not order.dry_run:
                    return SteerLine(done=1.0, effect=operator.schedule(order.args) | _unanswered(operator))
                if order.dry_run:
                    seen = [str(row.id) for row in _newest(operator)]
                    effect = operator.dry_run(order.op, order.args)
                    note = unknown_queues(operator, order.args.get("match"))
                    return SteerLine(done=1.0, effect=effect | _unanswered(operator), note=note, seen=seen)
                note = nothing_more(operator) or unknown_queues(operator, order.args.get("match"))
                command = OperatorCommand(order.op, order.args, order.who or whoami(), order.reason)
                applied = operator.apply(command)
                self._current = self._whole = None  # pages show the change at once
        except (FrontierError, OSError) as error:
            return SteerLine(error=str(error))
        return _line(operator, applied, note)

    def outcome(self, step: SteerLine) -> SteerLine:
        """Return what came of a command that some partitions had not applied when they were waited for."""
        if not step.name:
            return step

        def read(operator: CrawlOperator) -> SteerLine:
            assert isinstance(operator, ClusterOperator)
            return _line(operator, operator.outcome(bytes.fromhex(step.name), step.asked, within=0.0), step.note)

        try:
            return self.look(read)
        except ConnectionLost:
            return step
        except FrontierError as error:  # each has refused it
            return SteerLine(error=str(error))

    def since(self, asked: SubmittedCommand, shown: SteerLine) -> Since:
        """Return the commands since a dry run that may have made its result outdated."""
        effect = shown.effect or {}
        key = effect.get("queue") if asked.op != "delete" else None
        found = self.look(lambda operator: _newest(operator, key=key if isinstance(key, str) else None))
        rows = [row for row in found if row.id not in shown.seen and not row.entry.error]
        return Since([replace(row.entry, id=row.id) for row in rows], None, len(rows))


def _series(operator: CrawlOperator, since: float, now: float) -> Series:
    """Return the totals of a time; none if no owner answers: figures may be published nevertheless."""
    try:
        return operator.series(since, now)
    except ConnectionLost:
        if not operator.missing:
            raise
        return []


def _missing(operator: ClusterOperator) -> tuple[Collection[int], str, str]:
    """Return the partitions that do not answer, the sentence on them, and that on the others, if there are any.

    If all answer, the sentence is on the age of figures that were published.
    """
    numbers, sentence = operator.missing, operator.unanswered() or operator.owners.told_late()
    return numbers, sentence, OF_OTHERS if numbers and len(numbers) < operator.owners.partitions else ""


def _line(operator: ClusterOperator, applied: Applied, note: str) -> SteerLine:
    """Return the line on a command that was given to partitions; `note` is the sentence on what it does not do."""
    if applied.left or applied.entry is None:
        name, asked = applied.name.hex(), sorted(applied.asked)
        return SteerLine(error=applied.left, in_progress=True, name=name, asked=asked, note=note)
    effect = applied.entry.effect | _unanswered(operator)
    if applied.refused:
        effect["refused"] = applied.refused[:1000]
    entry = {"id": applied.entry.id, "when": applied.entry.when, "effect": effect}
    return SteerLine(done=1.0, entry=entry, note=note)


def _letter(text: Any) -> Any:
    """Return the id of a dead letter; what is none as it is."""
    try:
        return LetterId.read(text)
    except (AttributeError, ValueError):
        return text


def _newest(operator: CrawlOperator, *, key: str | None = None) -> list[AuditRow]:
    """Return the newest commands of the audit, the newest first; only those that concern a queue if it is named."""
    return [*islice(operator.audit(key=key, count=NEWEST).rows, NEWEST)]


def _unanswered(operator: ClusterOperator) -> dict[str, str]:
    return {"missing_partitions": numbers_as_text(operator.missing)} if operator.missing else {}
