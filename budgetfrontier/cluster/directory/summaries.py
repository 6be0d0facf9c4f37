"""Summaries of partitions, which their owners publish every few seconds: what is known of those that do not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from budgetfrontier.bus.interface import BusError
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress
from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.overview import Gathered
from budgetfrontier.storage.disks import FolderDisk, folder_disk
from budgetfrontier.storage.report import Report

EVERY: Final = 5.0
"""Seconds between two summaries of a partition in which something happens."""
BEAT: Final = 2 * EVERY
"""Seconds without a summary after which a worker in which nothing happens publishes one again: it lives."""
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
    """0.0 if nothing has happened since."""
    at: float = 0.0
    """When the broker has stored it (epoch seconds of its clock): no clock of a worker decides its age."""
    disk: FolderDisk | None = None
    """The disk of its owner's folder; None if that is not known."""


class Summaries(dict[int, PartitionSummary]):
    """The last summary of each partition."""

    def note(self, found: PartitionSummary) -> None:
        """Take a summary, unless it is of an owner before the known one's: such an owner may not know it yet."""
        new, known = found.standing, self.get(found.standing.partition)
        if known is None or known.standing.log != new.log or new.epoch >= known.standing.epoch:
            self[new.partition] = found


class SummaryTable(Protocol):
    """A table of summaries that all workers and operators of a crawl share."""

    def publish_summaries(self, found: Sequence[PartitionSummary]) -> None:
        """Store summaries, at once or once the broker answers."""

    def summaries(self) -> Mapping[int, PartitionSummary]:
        """Return the last summary of each partition that has one. Raises BusError."""


class SummaryPublisher:
    """Publishes the summaries of a worker's partitions from a thread of its own, until it is closed.

    `standings()` returns the standings of those that it owns; `look(number, name, arguments)` the encoded answer of
    `inspection` to "report" or "head". Both may raise FrontierError: then the rest waits for the next turn. `folder` is
    that of the worker, whose disk is told. `carry(logs)` is called when it owns partitions that it did not own before,
    and no crawler asks it: it reads when crawlers asked last from the summaries of the owners before, which are then
    replaced. It may raise BusError.
    """

    def __init__(
        self,
        table: SummaryTable,
        standings: Callable[[], Sequence[PartitionProgress]],
        look: Callable[[int, str, dict[str, Any]], bytes],
        folder: Path,
        carry: Callable[[Collection[str]], None],
    ) -> None:
        self._table, self._standings, self._look, self._folder, self._carry = table, standings, look, folder, carry
        self._published: dict[int, _Published] = {}
        self._turn = count()
        self._beat_at = 0.0
        """When a summary is published in any case (`time.monotonic`)."""
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

        Without any for long, publish that of one partition again, each in turn.
        Looks are at the last commit, which may be older than a standing: that of the turn before is committed by now.
        """
        standings = self._standings()
        if any(one.partition not in self._published and one.time - one.asked > BEAT for one in standings):
            with suppress(BusError):  # of a topic that is not there, such as that of a crawl that begins
                self._carry({one.log for one in standings})
            standings = self._standings()
        asked = {one.partition: one.asked for one in standings}
        found = [replace(one, time=0.0, asked=0.0) for one in standings]
        self._published = {one.partition: self._published.get(one.partition) or _Published() for one in found}
        new = [self._summary(one) for one in found if self._published[one.partition].is_news(one)]
        if found and not new and time.monotonic() >= self._beat_at:
            new = self._again(found[next(self._turn) % len(found)].partition)
        if new:
            new = [replace(s, standing=replace(s.standing, asked=asked[s.standing.partition])) for s in new]
            self._beat_at = time.monotonic() + BEAT
            with suppress(OSError):
                disk = folder_disk(self._folder)
                new = [replace(one, disk=disk) for one in new]
            try:
                self._table.publish_summaries(new)
            except BusError as e:
                log.debug("summaries are not published: %s", e)
                return
        for one in found:
            published = self._published[one.partition]
            if published.seen == one:
                published.reported = one
            published.seen = one

    def _summary(self, standing: PartitionProgress) -> PartitionSummary:
        number, now, published = standing.partition, time.monotonic(), self._published[standing.partition]
        if published.gathered is None or published.is_due():
            reported = _reported(self._look(number, "report", {"limit": LISTED}))
            report, published.gathered, published.at = reported.report, reported.gathered, now
            ended = time.monotonic()
            published.due = ended + (ended - now) / SHARE
            if published.seen == standing:
                published.gathered_for = standing
        else:
            report = _report(self._look(number, "head", {}))
        published.summary = PartitionSummary(standing, report, published.gathered, now - published.at)
        return published.summary

    def _again(self, partition: int) -> list[PartitionSummary]:
        """Return the last summary of a partition, if there is one."""
        published = self._published[partition]
        is_current = published.gathered_for is not None and published.gathered_for == published.seen
        before = 0.0 if is_current else time.monotonic() - published.at
        return [] if published.summary is None else [replace(published.summary, gathered_before=before)]


class _Published(msgspec.Struct):
    """The state of a partition as it was published; times are `time.monotonic`."""

    seen: PartitionProgress | None = None
    """Its standing in the last turn."""
    reported: PartitionProgress | None = None
    """The standing that its last commit, and so what was published of it, is known to have."""
    gathered: Gathered | None = None
    at: float = 0.0
    """When its aggregates were gathered."""
    gathered_for: PartitionProgress | None = None
    """The standing that they are known to have."""
    due: float = 0.0
    """When they may be gathered again."""
    summary: PartitionSummary | None = None
    """The last one."""

    def is_due(self) -> bool:
        """Return whether aggregates may be gathered."""
        return time.monotonic() >= self.due

    def is_news(self, standing: PartitionProgress) -> bool:
        """Return whether a standing, or its aggregates, are to be published."""
        return self.reported != standing or (self.gathered_for != standing and self.is_due())


_reported: Final[Callable[[bytes], Reported]] = protocol.decoder(Reported)
_report: Final[Callable[[bytes], Report]] = protocol.decoder(Report)
