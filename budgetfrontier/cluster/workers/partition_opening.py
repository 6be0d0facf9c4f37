"""Opening of partitions by a worker; copies are restored in threads, so that no other partition waits."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

from budgetfrontier.bus.interface import BusAway
from budgetfrontier.cluster.log.state import FRONTIER, NotACopy
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.cluster.snapshots.snapshot_store import SnapshotError
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage.damage import in_a_line
from budgetfrontier.storage.whole_files import name_for_damaged

MOST_DAMAGED: Final = 4
"""Copies of a partition that a worker sets aside, each rebuilt from another snapshot or the log, before it ends."""
RETRY: Final = 5.0
"""Seconds after which a store that did not answer is asked again."""
TELL: Final = 60.0
"""Seconds between two lines of the log about a partition that waits."""

Restore = Callable[[int, Path], None]

log = logging.getLogger("budgetfrontier.cluster")


class Opener:
    """Opens the partitions of a worker. Copies that are damaged, or were repaired, are set aside and rebuilt."""

    def __init__(
        self,
        folder: Path,
        crawl: str,
        partitions: int,
        log_end: Callable[[int], int],
        restore: Restore | None,
        stopping: threading.Event,
    ) -> None:
        self._folder, self._crawl, self._partitions = folder, crawl, partitions
        self._log_end, self._restore, self._stopping = log_end, restore, stopping
        self._restoring: set[int] = set()
        self.waiting: dict[int, str] = {}
        """By partition whose copy cannot be restored at present: why."""
        self._restored: SimpleQueue[tuple[int, int | BaseException]] = SimpleQueue()
        self._damaged: Counter[int] = Counter()

    def __repr__(self) -> str:
        return f"<Opener of {self._crawl!r} in {self._folder}: restores {sorted(self._restoring)}>"

    def folder(self, number: int) -> Path:
        """Return the folder of a partition."""
        return self._folder / f"partition-{number:04}"

    def begin(self, number: int) -> None:
        """Let the copy of a partition be restored, if there are snapshots: it is among the `restored` later.

        Raises FrontierError for a partition that the crawl has not.
        """
        if number >= self._partitions:
            raise FrontierError(
                f"the log of {self._crawl!r} has a partition {number}, and cluster.partitions says "
                f"{self._partitions}: the number is fixed when a crawl begins; begin the crawl under another name"
            )
        if number not in self._restoring:
            self._restoring.add(number)
            threading.Thread(target=self._run, args=(number,), name=f"restore {number}", daemon=True).start()

    def restored(self) -> Iterator[tuple[int, int]]:
        """Yield the partitions whose copies were restored since the last time, each with the offset after its log.

        Raises the error of a restoration.
        """
        while True:
            try:
                number, end = self._restored.get_nowait()
            except Empty:
                return
            self._restoring.discard(number)
            if isinstance(end, BaseException):
                raise end
            yield number, end

    def open(self, number: int) -> PartitionCopy | None:
        """Return a partition, opened as its copy is; None: that was set aside, and is among the `restored` later."""
        try:
            return PartitionCopy(self.folder(number), self._crawl, number, self._partitions)
        except (CorruptFrontier, NotACopy) as e:
            self.set_aside(number, e)
            self.begin(number)
            return None

    def set_aside(self, number: int, error: CorruptFrontier | NotACopy) -> None:
        """Set the copy of a partition aside. Raises the error if that has not helped so often before."""
        self._damaged[number] += 1
        if self._damaged[number] > MOST_DAMAGED:
            raise error
        set_aside(self.folder(number), error)

    def _run(self, number: int) -> None:
        next_log = monotonic()
        try:
            while not self._stopping.is_set():
                try:
                    if self._restore is not None:
                        self._restore(number, self.folder(number))
                    self._restored.put((number, self._log_end(number)))
                    break
                except (CorruptFrontier, NotACopy) as e:
                    self.set_aside(number, e)
                except (SnapshotError, BusAway) as e:
                    what = "its snapshot" if isinstance(e, SnapshotError) else "its broker"
                    self.waiting[number] = f"it waits for {what}: {e}"
                    if monotonic() >= next_log:
                        log.warning("partition %d waits for %s: %s", number, what, e)
                        next_log = monotonic() + TELL
                    self._stopping.wait(RETRY)
        except BaseException as e:
            self._restored.put((number, e))
        finally:
            self.waiting.pop(number, None)


def set_aside(folder: Path, error: CorruptFrontier | NotACopy) -> None:
    """Rename the copy of a partition that cannot be used, so that it is rebuilt.

    `budgetfrontier verify --repair` may save a damaged one.
    """
    frontier = folder / FRONTIER
    aside = name_for_damaged(frontier)
    frontier.rename(aside)
    what = "is damaged" if isinstance(error, CorruptFrontier) else "cannot be used"
    log.error(
        "%s %s, is now %s, and is rebuilt from a snapshot or the log: %s",
        frontier, what, aside.name, in_a_line(error),
        extra={"event": "partition_damaged", "folder": str(aside)},
    )  # fmt: skip
