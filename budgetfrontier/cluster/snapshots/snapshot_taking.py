"""Snapshots of a worker's partitions: begun when they are due, each in a process of its own."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from budgetfrontier.cluster.log.state import FRONTIER
from budgetfrontier.cluster.snapshots import snapshot_process
from budgetfrontier.cluster.snapshots.snapshot_process import SnapshotTask, Taken
from budgetfrontier.cluster.snapshots.snapshot_restore import SNAPSHOT
from budgetfrontier.cluster.snapshots.snapshot_schedule import Schedule
from budgetfrontier.core.units import format_size, say_duration
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage.damage import in_a_line

LONGEST: Final = 4 * 3600.0
"""Seconds after which a process that takes a snapshot is ended."""

log = logging.getLogger("budgetfrontier.cluster")


def clear_up(folder: Path) -> None:
    """Remove unfinished snapshots from a worker's folder."""
    for left in folder.glob(f"partition-*/{SNAPSHOT}"):
        shutil.rmtree(left, ignore_errors=True)


class Taker:
    """Takes the snapshots of a worker's partitions. It is called from the worker's loop, and never waits."""

    def __init__(self, crawl: str, settings: ClusterSettings) -> None:
        self._crawl, self._settings = crawl, settings
        self._schedule = Schedule(settings.snapshot_every)
        self._process: subprocess.Popen[bytes] | None = None
        self._number = -1
        self._last: dict[int, float] = {}
        """When the last snapshot of each partition was begun, of those that were taken here."""
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<Taker of {self._crawl!r}: {self._schedule!r}>"

    def step(self, positions: Mapping[int, int], folders: Mapping[int, Path], now: float) -> tuple[int, Taken] | None:
        """Begin the snapshot that is due; return the partition of one that was taken meanwhile, or that found damage.

        `positions` are those of the partitions that this worker owns, `folders` their folders.
        """
        if self._process is None:
            if (number := self._schedule.next(positions, now)) is not None:
                self._begin(number, folders[number], now)
            return None
        if self._process.poll() is None:
            if now > self._since + LONGEST:
                self._process.kill()
            return None
        return self._ended(now)

    def close(self) -> None:
        """End the process that is taking a snapshot, if there is one; its files are removed later."""
        if self._process is not None:
            self._process.kill()
            snapshot_process.result(self._process)
            self._process = None

    def _begin(self, number: int, folder: Path, now: float) -> None:
        task = SnapshotTask(str(folder / FRONTIER), str(folder / SNAPSHOT), self._crawl, number, self._settings)
        self._process = snapshot_process.begin(task)
        self._number, self._since = number, now

    def _ended(self, now: float) -> tuple[int, Taken] | None:
        process, self._process = self._process, None
        assert process is not None
        taken = snapshot_process.result(process)
        if taken.is_damaged:
            return self._number, taken
        if taken.error is not None:
            self._schedule.failed(self._number, now)
            last = self._last.get(self._number)
            age = "" if last is None else f" (its last one is {say_duration(now - last)} old)"
            text = f"no snapshot of partition {self._number}{age}: {in_a_line(taken.error)}"
            self._log(logging.WARNING, text, "snapshot_failed")
            return None
        self._last[self._number] = self._since
        self._schedule.taken(self._number, taken.position, now)
        text = f"a snapshot of partition {self._number} at {taken.position}"
        how = f"was taken in {taken.seconds:.1f} s: {format_size(taken.size)}" if taken.size else "was there"
        self._log(logging.INFO, f"{text} {how}", "snapshot_taken", position=taken.position, bytes=taken.size)
        if taken.left is not None:
            text = (
                f"snapshots of partition {self._number} beyond the {self._settings.snapshots_kept} that are kept stay"
            )
            self._log(logging.WARNING, f"{text} in the store: {in_a_line(taken.left)}", "snapshot_left")
        return self._number, taken

    def _log(self, level: int, text: str, event: str, **fields: Any) -> None:
        log.log(level, text, extra={"event": event, "partition": self._number, **fields})
