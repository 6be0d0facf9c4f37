"""A crawl in partitions as a job of the console: what the owners of its partitions tell, read when a page asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.cluster.inspection import Selection
from budgetfrontier.cluster.operation import Operator, PartitionRow
from budgetfrontier.console.jobs import Gone, Job
from budgetfrontier.console.sampling import Sample
from budgetfrontier.model import QueueRecord, QueueState
from budgetfrontier.reports.overview import Overview
from budgetfrontier.store.reader import Reader
from budgetfrontier.store.report import Report

FRESH = 4.0
"""Seconds for which what was told of the partitions is good."""
EVERY = 60.0
"""Seconds between two looks at all queues, at least."""
LISTED = 20


class Current(NamedTuple):
    """The crawl as of a moment: its report without queues, its partitions, and those that do not answer in words."""

    when: float
    report: Report
    partitions: list[PartitionRow]
    missing: str


class Whole(NamedTuple):
    """The aggregates of all queues as of a moment."""

    when: float
    overview: Overview


class ClusterJob(Job):
    """A crawl in partitions. Its methods may be called from any thread, one at a time looks at the owners."""

    is_folder = False

    def __init__(self, url: str, operator: Callable[[], Operator]) -> None:
        """Show the crawl at a URL; `operator()` returns one that has no partition missing yet."""
        super().__init__("", Path(url), Path(url))
        self._url, self._operator = url, operator
        self._looking = threading.Lock()
        self._current: Current | None = None
        self._whole: Whole | None = None

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

    def open_reader(self) -> Reader:
        """Raise Gone: its files are those of its workers."""
        raise Gone(f"{self._url} has no files here")

    def sample(self) -> Sample:
        """Return the totals that were told last, or the first ones."""
        current = self._current or self.current()
        return Sample(current.when, 0, current.report.standing.process.last_commit or 0.0, current.report.totals)

    def current(self) -> Current:
        """Return what the owners tell, a few seconds old at the most. Raises ConnectionLost if none answers."""
        with self._looking:
            now, current = time.time(), self._current
            if current is None or not 0 <= now - current.when < FRESH:
                operator = self._operator()
                report, partitions = operator.current()
                missing = operator.without_owner(operator.missing) if operator.missing else ""
                self._current = current = Current(now, report, partitions, missing)
            return current

    def whole(self) -> Whole:
        """Return the aggregates of all queues, a minute old at the most."""
        with self._looking:
            now, whole = time.time(), self._whole
            if whole is None or not 0 <= now - whole.when < EVERY:
                self._whole = whole = Whole(now, self._operator().overview(LISTED))
            return whole

    def queues(
        self, state: QueueState | None, match: str | None, *, sort: str, reverse: bool, count: int
    ) -> tuple[list[QueueRecord], str]:
        """Return the first queues in an order, and which partitions have not told theirs, in words."""
        selection = Selection(None if state is None else [state], match)
        with self._looking:
            operator = self._operator()
            rows = operator.best_queues(selection, sort=sort, reverse=reverse, count=count)
            missing = operator.without_owner(operator.missing) if operator.missing else ""
        return [queue for queue, _ in rows], missing
