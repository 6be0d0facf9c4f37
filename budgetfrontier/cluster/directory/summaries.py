"""Summaries of partitions, which their owners publish every few seconds: what is known of those that do not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from budgetfrontier.bus.interface import BusError
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress
from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.overview import Gathered
from budgetfrontier.storage.report import Report

EVERY: Final = 5.0
"""Seconds between two summaries of a partition in which something happens."""
SHARE: Final = 0.05
"""The part of the time in which aggregates are gathered: those of a large partition are older."""
LISTED: Final = 20
"""Queues in each list of the aggregates."""

log = logging.getLogger("budgetfrontier.cluster")


class Reported(msgspec.Struct):
    """The report of a partition, without its queues, and their aggregates."""

    report: Report
    gathered: Gathered


class PartitionSummary(msgspec.Struct):
    """A partition, with aggregates over its queues that were gathered some seconds before."""

    standing: PartitionProgress
    report: Report
    gathered: Gathered
    gathered_before: float
    at: float = 0.0
    """When the broker has stored it (epoch seconds of its clock): no clock of a worker decides its age."""


class SummaryTable(Protocol):
    """A table of summaries that all workers and operators of a crawl share."""

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        """Store summaries, at once or once the broker answers."""

    def summaries(self) -> Mapping[int, PartitionSummary]:
        """Return the last summary of each partition that has one. Raises BusError."""


class SummaryPublisher:
    """Publishes the summaries of a worker's partitions from a thread of its own, until it is closed.

    `standings()` returns the standings of those that it owns; `look(number, name, arguments)` the encoded answer of
    `inspection` to "report" or "head". Both may raise FrontierError: then the rest waits for the next turn.
    """

    def __init__(
        self,
        table: SummaryTable,
        standings: Callable[[], Sequence[PartitionProgress]],
        look: Callable[[int, str, dict[str, Any]], bytes],
    ) -> None:
        self._table, self._standings, self._look = table, standings, look
        self._seen: dict[int, PartitionProgress] = {}
        """By partition: its standing in the last turn."""
        self._reported: dict[int, PartitionProgress] = {}
        """By partition: the standing that its last commit, and so what was published of it, is known to have."""
        self._gathered: dict[int, tuple[Gathered, float]] = {}
        """By partition: its aggregates, and when they were gathered (monotonic seconds)."""
        self._gathered_for: dict[int, PartitionProgress] = {}
        self._due: dict[int, float] = {}
        """By partition: when its aggregates may be gathered again (monotonic seconds)."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._main, name="summaries", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()

    def _main(self) -> None:
        while not self._closed.wait(EVERY):
            with suppress(FrontierError):  # a partition that was lost meanwhile, or a worker that is being stopped
                self.turn()

    def turn(self) -> None:
        """Publish the summaries of partitions in which something has happened since their last one.

        Looks are at the last commit, which may be older than a standing: that of the turn before is committed by now.
        """
        found = {one.partition: one for one in self._standings()}
        for number in self._seen.keys() - found.keys():
            for of_partition in (self._seen, self._reported, self._gathered, self._gathered_for, self._due):
                of_partition.pop(number, None)
        new = [self._summary(one) for one in found.values() if self._is_news(one)]
        if new:
            try:
                self._table.publish_summaries(new)
            except BusError as e:
                log.debug("summaries are not published: %s", e)
                return
        for number, standing in found.items():
            if self._seen.get(number) == standing:
                self._reported[number] = standing
        self._seen = found

    def _is_news(self, standing: PartitionProgress) -> bool:
        number = standing.partition
        if self._reported.get(number) != standing:
            return True
        return self._gathered_for.get(number) != standing and self._is_due(number)

    def _is_due(self, number: int) -> bool:
        return time.monotonic() >= self._due.get(number, 0.0)

    def _summary(self, standing: PartitionProgress) -> PartitionSummary:
        number, now = standing.partition, time.monotonic()
        if self._is_due(number):
            reported = _reported(self._look(number, "report", {"limit": LISTED}))
            report, self._gathered[number] = reported.report, (reported.gathered, now)
            ended = time.monotonic()
            self._due[number] = ended + (ended - now) / SHARE
            if self._seen.get(number) == standing:
                self._gathered_for[number] = standing
        else:
            report = _report(self._look(number, "head", {}))
        gathered, at = self._gathered[number]
        return PartitionSummary(standing, report, gathered, now - at)


_reported: Final[Callable[[bytes], Reported]] = protocol.decoder(Reported)
_report: Final[Callable[[bytes], Report]] = protocol.decoder(Report)
