"""The process that takes or checks a snapshot: a task on stdin, its result on stdout.

So neither the copy nor its check nor the compression holds up the worker's loop, and no process with threads is forked.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from budgetfrontier.cluster.log.state import place_in
from budgetfrontier.cluster.snapshots import snapshot_archive
from budgetfrontier.cluster.snapshots.snapshot_store import (
    Snapshot,
    SnapshotError,
    folder_of,
    name_of,
    newest_first,
    store_of,
)
from budgetfrontier.core.units import format_size
from budgetfrontier.errors import CorruptFrontier, FrontierError, StorageFull
from budgetfrontier.settings.schema import ClusterSettings
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.verify import verify

SPARE: Final = 64 << 20
"""Bytes that a snapshot leaves free on the disk of the worker, besides its own copies."""


class SnapshotTask(msgspec.Struct, tag=True):
    """A snapshot to take: of `frontier`, in the folder `making`, which is made and removed."""

    frontier: str
    making: str
    crawl: str
    partition: int
    settings: ClusterSettings


class CheckTask(msgspec.Struct, tag=True):
    """A copy of a partition to check: that of a snapshot which was fetched."""

    frontier: str


class Taken(msgspec.Struct):
    """A snapshot that was taken, or why it was not; `size` is 0 if the store had one, or a later one.

    `oldest` is the position of the oldest one that is kept, before which no entry of the log is needed. `is_damaged`
    says that the error is damage of the frontier itself, `left` why older ones are still in the store.
    """

    position: int = -1
    oldest: int = 0
    size: int = 0
    seconds: float = 0.0
    error: str | None = None
    is_damaged: bool = False
    left: str | None = None


_decode_taken = msgspec.json.Decoder(Taken).decode
_decode = msgspec.json.Decoder(SnapshotTask | CheckTask).decode


def take(job: SnapshotTask) -> Taken:
    """Copy the last commit of a partition, check and store it, and remove old snapshots.

    Raises CorruptFrontier if the partition is damaged, another FrontierError, and OSError.
    """
    started = monotonic()
    store = store_of(job.settings)
    assert store is not None
    making = Path(job.making)
    shutil.rmtree(making, ignore_errors=True)
    try:
        _check_room(Path(job.frontier))
        make_folder(making)
        with Reader(job.frontier) as reader:
            reader.backup(making / "frontier")
        place = place_in(making / "frontier")
        assert place is not None
        names = store.names(folder_of(job.crawl, job.partition))
        stored = newest_first(names, job.crawl, job.partition, place.log)
        size = 0
        if not stored or stored[0].position < place.position:
            _check(making / "frontier", Path(job.frontier))
            snapshot_archive.pack(making / "frontier", making / "file")
            size = (making / "file").stat().st_size
            name = name_of(job.crawl, job.partition, place.position, place.log)
            store.put(name, making / "file")
            stored.insert(0, Snapshot(job.partition, place.position, name))
        kept, left = job.settings.snapshots_kept, None
        try:
            for old in stored[kept:]:
                store.remove(old.name)
        except SnapshotError as e:  # such as a store that may be written to, and no more
            left = str(e)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return Taken(stored[0].position, stored[:kept][-1].position, size, monotonic() - started, left=left)


def _check(copy: Path, frontier: Path) -> None:
    """Raise CorruptFrontier if a frontier is damaged, SnapshotError if only its copy is."""
    try:
        verify(copy)
    except CorruptFrontier as e:
        verify(frontier)
        raise SnapshotError(f"a copy of {frontier}, which is not damaged itself, was: look at the disk: {e}") from e


def _check_room(frontier: Path) -> None:
    """Raise StorageFull if the copy might fill the disk, which would end the worker."""
    needed = 2 * (frontier / "data.mdb").stat().st_size + SPARE
    free = free_bytes(frontier)
    if free < needed:
        raise StorageFull(
            f"a snapshot of {frontier} may need {format_size(needed)}, and its disk has {format_size(free)} free: "
            "free some space"
        )


def main(task: bytes) -> Taken:
    """Take or check a snapshot at a low priority: the worker needs the processor more."""
    os.nice(10)
    job = _decode(task)
    try:
        if isinstance(job, SnapshotTask):
            return take(job)
        verify(Path(job.frontier))
    except CorruptFrontier as e:
        return Taken(error=str(e), is_damaged=True)
    except (FrontierError, OSError) as e:
        return Taken(error=str(e))
    return Taken()


def begin(task: SnapshotTask | CheckTask) -> subprocess.Popen[bytes]:
    """Start a process for a task."""
    command = [sys.executable, "-m", "budgetfrontier.cluster.snapshots.snapshot_process"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(msgspec.json.encode(task))
    return process


def result(process: subprocess.Popen[bytes]) -> Taken:
    """Wait for the end of a process, and return its result."""
    assert process.stdout is not None
    with process.stdout as stdout:
        said = stdout.read()
    process.wait()
    try:
        return _decode_taken(said)
    except msgspec.DecodeError:
        return Taken(error=f"its process has ended with {process.returncode}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which ends this one
    sys.stdout.buffer.write(msgspec.json.encode(main(sys.stdin.buffer.read())))
