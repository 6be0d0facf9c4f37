"""Files that only grow: written in large pieces, cut back to whole records after a crash, safe against a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetfrontier.errors import StorageFull
from budgetfrontier.store.modes import file_mode

_MOST = 1 << 18
_BLOCK = 1 << 16


class GrowingFile:
    """A file that is appended to. What is written is on disk after `sync`, and in the file after at most 256 KiB more.

    What a full disk did not take stays in memory, in order, and is written with what comes next: the file never holds a
    gap. `size` counts what waits too. All methods raise StorageFull on a full disk, else OSError; after an error that
    cannot be made good (of fsync, or at `close`) `sync` raises it for ever: nobody is to believe what is not on disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, file_mode(path.parent))
        self.size = os.fstat(self._fd).st_size
        self._waiting = bytearray()
        self._unsynced = False
        self._failure: Exception | None = None

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._waiting += data
        self.size += len(data)
        if len(self._waiting) >= _MOST:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the system: it outlives this process, but no power cut."""
        while self._waiting:
            with full_disk(self._path):
                taken = os.write(self._fd, self._waiting)
            del self._waiting[:taken]
            self._unsynced = True

    def sync(self) -> None:
        """Bring everything to the disk: it outlives a power cut. Costs nothing when nothing was written."""
        if self._failure:
            raise self._failure
        self.flush()
        if self._unsynced:
            try:
                with full_disk(self._path):
                    os.fsync(self._fd)
            except (OSError, StorageFull) as e:
                self._failure = e  # the system forgets what it could not write: the next fsync would say all is well
                raise
            self._unsynced = False

    def close(self) -> None:
        """Sync and close; closes too when that fails. A second close raises the same, or does nothing."""
        try:
            self.sync()
        except Exception as e:
            self._failure = e
            raise
        finally:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Make a StorageFull of an OSError that says so."""
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"the disk of {path} is full; free some space and run the same command again") from e
        raise


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk: files that were made, renamed or deleted there."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def cut(path: Path, size: int) -> None:
    """Cut a file to `size` bytes and bring that to the disk."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def cut_half_line(path: Path) -> None:
    """Cut off what stands behind the last line end of a file: half a line that a killed process left."""
    if not path.exists():
        return
    with path.open("rb") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - _BLOCK, 0)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                end = start + found + 1
                break
            end = start
    if end < size:
        cut(path, end)
