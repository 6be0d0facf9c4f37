"""The process that takes a snapshot: `python -m budgetfrontier.cluster.snapshot_process`, a job on its standard input.

So neither the copy nor the compression holds up the worker's loop.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from budgetfrontier.cluster import snapshot_archive, state
from budgetfrontier.cluster.snapshots import SnapshotError, name_of, newest_first, prefix_of, store_of
from budgetfrontier.core.units import format_size
from budgetfrontier.errors import FrontierError, StorageFull
from budgetfrontier.settings.schema import SnapshotSettings
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.reader import Reader

SPARE: Final = 64 << 20
"""Bytes that a snapshot leaves free on the disk of the worker, besides its own copies."""


class SnapshotTask(msgspec.Struct):
    """A snapshot to take: of `frontier`, in the folder `making`, which is made and removed."""

    frontier: str
    making: str
    crawl: str
    partition: int
    kept: int
    store: SnapshotSettings


class Taken(msgspec.Struct):
    """A snapshot that was taken, or why it was not; `size` is 0 if the store had one, or a later one."""

    position: int = -1
    size: int = 0
    seconds: float = 0.0
    error: str | None = None


_decode = msgspec.json.Decoder(SnapshotTask).decode


def take(job: SnapshotTask) -> Taken:
    """Copy the last commit of a partition, store it, and remove old snapshots. Raises FrontierError and OSError."""
    started = monotonic()
    store = store_of(job.store)
    assert store is not None
    making = Path(job.making)
    shutil.rmtree(making, ignore_errors=True)
    try:
        _check_room(Path(job.frontier))
        make_folder(making)
        position = _copy(Path(job.frontier), making / "frontier")
        stored = newest_first(store.names(prefix_of(job.crawl, job.partition)), job.crawl, job.partition)
        size = 0
        names = [snapshot.name for snapshot in stored]
        if not stored or stored[0].position < position:
            snapshot_archive.pack(making / "frontier", making / "file")
            size = (making / "file").stat().st_size
            name = name_of(job.crawl, job.partition, position)
            store.put(name, making / "file")
            names.insert(0, name)
        else:
            position = stored[0].position
        for old in names[job.kept :]:
            store.remove(old)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return Taken(position, size, monotonic() - started)


def _copy(frontier: Path, copy: Path) -> int:
    """Copy a partition; return the position of the copy."""
    with Reader(frontier) as reader:
        reader.backup(copy)
    with Reader(copy) as reader:
        note = reader.note()
    if note is None:
        raise SnapshotError(f"{frontier} is no partition")
    return state.decode(note).position


def _check_room(frontier: Path) -> None:
    """Raise StorageFull if the copy might fill the disk, which would end the worker."""
    needed = 2 * (frontier / "data.mdb").stat().st_size + SPARE
    free = free_bytes(frontier)
    if free < needed:
        raise StorageFull(
            f"a snapshot of {frontier} may need {format_size(needed)}, and its disk has {format_size(free)} free: "
            "free some space"
        )


def main(job: bytes) -> Taken:
    """Take a snapshot at a low priority: the worker needs the processor more."""
    os.nice(10)
    try:
        return take(_decode(job))
    except (FrontierError, OSError) as e:
        return Taken(error=str(e))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which ends this one
    sys.stdout.buffer.write(msgspec.json.encode(main(sys.stdin.buffer.read())))
