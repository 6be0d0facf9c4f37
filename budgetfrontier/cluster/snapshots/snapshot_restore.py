"""Restoring of a partition's copy in a worker's folder: from a later snapshot, or anew if it is damaged."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from budgetfrontier.cluster.log.state import FRONTIER, NotACopy, place_in
from budgetfrontier.cluster.snapshots import snapshot_archive, snapshot_process
from budgetfrontier.cluster.snapshots.snapshot_process import CheckTask
from budgetfrontier.cluster.snapshots.snapshot_store import (
    DamagedSnapshot,
    Snapshot,
    SnapshotError,
    SnapshotStore,
    folder_of,
    newest_first,
)
from budgetfrontier.errors import CorruptFrontier, NewerSchema, SettingsError, disk_full
from budgetfrontier.storage.damage import in_a_line
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.lmdb_env import sync_folder
from budgetfrontier.storage.modes import make_folder

RESTORING: Final = "frontier.restoring"
REPLACED: Final = "frontier.replaced"
FETCHED: Final = "frontier.fetched"
DAMAGED: Final = ".damaged"
"""The end of the name of a snapshot that was found to be damaged."""
AT_ONCE: Final = 2
"""Snapshots that are fetched and checked at a time."""
FULL: Final = 1 << 20
"""Bytes: a disk with less than that is full."""
SNAPSHOT: Final = "snapshot"
"""The folder in which a snapshot is made, by a process that may outlive the worker."""

log = logging.getLogger("budgetfrontier.cluster")


def clear_up(folder: Path) -> None:
    """Bring the folder of a partition in order after a kill: the copy is there, and nothing unfinished."""
    frontier, replaced = folder / FRONTIER, folder / REPLACED
    if not frontier.exists() and replaced.exists():
        replaced.rename(frontier)
    for left in (folder / RESTORING, replaced, folder / FETCHED):
        shutil.rmtree(left, ignore_errors=True)


class Restorer:
    """Brings the newest snapshot to a worker that has no later copy of a partition.

    It may be called in several threads, each for a partition of its own: who has a copy that is as late waits for none
    of those that fetch.
    """

    def __init__(
        self,
        store: SnapshotStore,
        crawl: str,
        partitions: int,
        *,
        log_id: Callable[[], str | None] | None = None,
        log_end: Callable[[int], int] | None = None,
        read_only: bool = False,
    ) -> None:
        """Restore from a store. `log_id()` returns the identity of the logs, whose snapshots alone count; without it,
        all count. It returns None while that is not known. `log_end(partition)` returns the offset that comes next.
        `read_only`: a damaged snapshot keeps its name in the store.
        """
        self._store, self._crawl, self._partitions = store, crawl, partitions
        self._log_id, self._log_end, self._read_only = log_id, log_end, read_only
        self._turns = threading.Semaphore(AT_ONCE)
        self._tried: dict[int, set[str]] = {}
        """The snapshots of each partition that were restored here."""
        self._told = set[Snapshot]()
        """The snapshots of other logs that were named."""

    def __repr__(self) -> str:
        return f"<Restorer of {self._crawl!r} from {self._store!r}>"

    def __call__(self, partition: int, folder: Path) -> None:
        """Replace the copy in the folder of a partition if there is a later snapshot; a kill leaves one or the other.

        A copy that is gone again was set aside: a snapshot that was restored before is left out, so that older ones are
        tried, then the log alone, and then all of them again.

        Raises SnapshotError if there is no copy and the store does not answer, or has a snapshot of after the log's
        end, or if it is not known which snapshots count, SettingsError if one is of another crawl, or of another
        number of partitions, CorruptFrontier if the copy is damaged, NotACopy if it is none, and BusError.
        """
        clear_up(folder)
        local = place_in(folder / FRONTIER)
        if local is not None and local.of != (self._crawl, partition, self._partitions):
            return  # it is refused when it is opened, and must not be replaced
        log_id = None if self._log_id is None else self._log_id()
        if self._log_id is not None and log_id is None:
            raise SnapshotError(
                f"no broker says which topic {self._crawl}-log is, so that no snapshot is known to be of it"
            )
        position = -1 if local is None else local.position
        try:
            self._restore(partition, folder, position, log_id)
        except SnapshotError as e:
            if local is None:
                raise
            log.warning("partition %d goes on from the worker's own copy: %s", partition, in_a_line(e))

    def _restore(self, partition: int, folder: Path, position: int, log_id: str | None) -> None:
        names = self._store.names(folder_of(self._crawl, partition))
        tried = self._tried.setdefault(partition, set())
        found = newest_first(names, self._crawl, partition, log_id)
        self._tell_others(set(newest_first(names, self._crawl, partition)) - set(found))
        if len(logs := sorted({one.log for one in found})) > 1:  # which topic is there was not asked
            raise SnapshotError(
                f"the snapshots of partition {partition} of {self._crawl!r} are of several topics, by their ids "
                f"{', '.join(log or 'none' for log in logs)}: move those of topics that are no more away"
            )
        if found and found[0].position > position:
            self._check_end(found[0])
        for snapshot in found:
            if snapshot.position <= position:
                break
            if snapshot.name in tried:
                continue
            with self._turns:
                is_whole = self._fetched(snapshot, folder)
            if is_whole:
                self._replace(folder)
                tried.add(snapshot.name)
                log.info(
                    "partition %d was restored from %s", partition, snapshot.name,
                    extra={"event": "partition_restored", "partition": partition, "position": snapshot.position},
                )  # fmt: skip
                return
        if position < 0:
            tried.clear()

    def _tell_others(self, others: set[Snapshot]) -> None:
        """Name the snapshots of other logs, each once."""
        for snapshot in sorted(others - self._told):
            log.warning(
                "%s is not used: it is of another topic than %s-log is now. Bring that topic back to go on from it, or "
                "move it away", snapshot.name, self._crawl,
                extra={"event": "snapshot_unusable", "partition": snapshot.partition},
            )  # fmt: skip
        self._told |= others

    def _check_end(self, snapshot: Snapshot) -> None:
        """Raise SnapshotError if a snapshot has entries that the log has lost: an operator decides what is lost."""
        if self._log_end is not None and snapshot.position > (end := self._log_end(snapshot.partition)):
            raise SnapshotError(
                f"{snapshot.name} has the entries before offset {snapshot.position}, and the log ends at {end}: the "
                f"topic {self._crawl}-log has lost its end, or was made anew. Bring the topic back, or move this "
                "snapshot away to go on without what it alone has"
            )

    def _fetched(self, snapshot: Snapshot, folder: Path) -> bool:
        """Fetch a snapshot, and unpack it beside the copy; return whether it is whole.

        One that is damaged twice gets another name in the store: it is none of those that are kept.
        """
        try:
            try:
                self._fetch(snapshot, folder)
            except (DamagedSnapshot, CorruptFrontier):  # perhaps only on its way
                self._fetch(snapshot, folder)
        except (DamagedSnapshot, CorruptFrontier) as e:
            shutil.rmtree(folder / RESTORING, ignore_errors=True)
            now = "" if self._read_only else self._rename(snapshot)
            log.error("%s is not used%s: %s", snapshot.name, now, in_a_line(e), extra={"event": "snapshot_unusable"})
            return False
        except NewerSchema as e:
            raise NewerSchema(f"the snapshot {snapshot.name} cannot be restored: {e}") from e
        return True

    def _rename(self, snapshot: Snapshot) -> str:
        """Give a damaged snapshot another name; return the words for that, "" if the store does not do it."""
        try:
            self._store.rename(snapshot.name, snapshot.name + DAMAGED)
        except SnapshotError as e:
            log.warning("%s counts among those that are kept: %s", snapshot.name, in_a_line(e))
            return ""
        return f", and is now {snapshot.name}{DAMAGED}"

    def _fetch(self, snapshot: Snapshot, folder: Path) -> None:
        room, restoring = folder / FETCHED, folder / RESTORING
        shutil.rmtree(restoring, ignore_errors=True)
        make_folder(room)
        try:
            self._get(snapshot, room / "file")
            snapshot_archive.unpack(room / "file", restoring)
            self._check(restoring, snapshot)
        finally:
            shutil.rmtree(room, ignore_errors=True)

    def _get(self, snapshot: Snapshot, file: Path) -> None:
        try:
            self._store.get(snapshot.name, file)
        except SnapshotError as e:
            if free_bytes(file.parent) < FULL:  # a command reports that in its own words
                raise disk_full(file) from e
            raise

    def _check(self, frontier: Path, snapshot: Snapshot) -> None:
        try:
            found = place_in(frontier)
        except NotACopy:
            found = None
        if found is None or found.position != snapshot.position:
            raise DamagedSnapshot(f"it has not what its name says: {found!r:.200}")
        if found.of != (self._crawl, snapshot.partition, self._partitions):
            shutil.rmtree(frontier)
            raise SettingsError(
                f"{snapshot.name} is a snapshot of partition {found.partition} of {found.partitions} of "
                f"{found.crawl!r}, and partition {snapshot.partition} of {self._partitions} of {self._crawl!r} is "
                "wanted: set cluster.partitions and crawl as the workers that took it have them, or move it away"
            )
        checked = snapshot_process.result(snapshot_process.begin(CheckTask(str(frontier))))
        if checked.error is not None:
            if checked.is_damaged:
                raise DamagedSnapshot(checked.error)
            raise SnapshotError(f"{snapshot.name}: {checked.error}")

    def _replace(self, folder: Path) -> None:
        frontier, replaced = folder / FRONTIER, folder / REPLACED
        if frontier.exists():
            frontier.rename(replaced)
        (folder / RESTORING).rename(frontier)
        sync_folder(folder)
        shutil.rmtree(replaced, ignore_errors=True)
