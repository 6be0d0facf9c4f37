"""Append-only files: buffered writes, truncation to whole records after a crash, no gaps after a full disk."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock

from budgetfrontier.errors import (
    NO_LOCKS,
    NO_ROOM,
    FrontierError,
    FrontierLocked,
    OutputRemoved,
    StorageFull,
    disk_full,
)
from budgetfrontier.storage.file_locks import LockFile

_BUFFER_SIZE = 1 << 18
_BLOCK = 1 << 16
_LOCKED_BYTE = 0

log = logging.getLogger("budgetfrontier.crawl")


class GrowingFile:
    """An append-only file. Data is durable after `sync`, and in the file at the latest after another 256 KiB.

    Data that a full disk did not accept stays buffered, in order, and is written before later data: the file never has
    a gap. `size` includes the buffer. All methods raise StorageFull on a full disk, and OSError for other failures.
    After an error that cannot be recovered from (of fsync, or in `close`), `sync` always raises that error, so that
    data that is not on disk is never taken for durable. It raises OutputRemoved likewise if somebody has removed,
    replaced or truncated the file. With `rotates`, a file that was renamed is synced, and continued in a new one at its
    path. `head` is written if the file is empty.

    The file is locked while it is open, for all paths to it. Raises FrontierLocked if another crawl has it open.
    """

    def __init__(self, path: Path, *, rotates: bool = False, head: bytes = b"") -> None:
        self._path, self._rotates, self._head = path, rotates, head
        self._buffer = bytearray()
        self._flushed = self._synced = 0  # bytes, of those written by this object
        self._syncing = Lock()
        self._failure: Exception | None = None
        self._open()

    def _open(self) -> None:
        file = _locked(self._path, append=True)
        while not file.is_named(self._path):  # another crawl removed it, as it was empty
            file.close()
            file = _locked(self._path, append=True)
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self._start = self.size - self._flushed
        if not self.size:
            self.write(self._head)

    def write(self, data: bytes) -> None:
        """Append `data` to the buffer; flush it when it reaches 256 KiB."""
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the file: the data survives the end of this process, but not a power failure."""
        while self._buffer:
            with full_disk(self._path):
                taken = os.write(self._file.fileno(), self._buffer)
            del self._buffer[:taken]
            self._flushed += taken

    def sync(self) -> None:
        """Make all data durable (fsync): it survives a power failure. Costs nothing if nothing was written."""
        if rest := self.begin_sync():
            rest()

    def begin_sync(self) -> Callable[[], None] | None:
        """Flush, and return the rest of `sync`, None if nothing is left to do. Raises the errors of `sync`.

        The rest may run in another thread, and this object may be used meanwhile. Bytes written then are not synced.
        """
        if self._failure:
            raise self._failure
        self.flush()
        self._check_place()
        size = self._flushed
        return None if size == self._synced else lambda: self._sync_up_to(size)

    def _check_place(self) -> None:
        """Raise OutputRemoved unless the file is at its path, whole; continue in a new one if it was renamed."""
        if self._file.closed:
            return
        own = os.fstat(self._file.fileno())
        renamed = own.st_nlink > 0
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            what = "was removed"
        except OSError:  # such as a folder that may not be entered any more
            return
        else:
            what = "was replaced by another file"
            if os.path.samestat(own, there):
                if not stat.S_ISREG(own.st_mode) or own.st_size >= self._start + self._flushed:
                    return
                what, renamed = "was truncated", False
        if renamed and self._rotates and self._path.parent.exists():
            self._rotate()
            return
        rotation = "; to rotate a log, rename it, and compress it later" if self._rotates else ""
        self._failure = OutputRemoved(
            f"{self._path} {what} while it was written: run the same command again, which fetches again what was not "
            f"committed yet; what was in the file before is not fetched again{rotation}"
        )
        raise self._failure

    def _rotate(self) -> None:
        """Continue in a new file at the path: the open one has another name now."""
        with self._syncing:
            old = self._file
            try:
                with full_disk(self._path):
                    os.fsync(old.fileno())
                    self._synced = self._flushed
                    self._open()
                    sync_folder(self._path.parent)
            except (OSError, FrontierError) as e:
                self._failure = e
                raise
            finally:
                if self._file is not old:
                    old.close()
        log.warning("%s was renamed: what follows is in a new file of that name", self._path)

    def _sync_up_to(self, size: int) -> None:
        with self._syncing:  # of two syncs at a time, the kernel would report an error to only one
            if self._failure:
                raise self._failure
            if self._synced >= size:
                return
            size = self._flushed
            try:
                with full_disk(self._path):
                    os.fsync(self._file.fileno())
            except (OSError, StorageFull) as e:
                self._failure = e  # the kernel drops the pages it could not write: the next fsync would succeed
                raise
            self._synced = size

    def close(self, *, name: str | None = None) -> None:
        """Sync, rename to `name`, and close; the file is closed even if that fails.

        A second close raises the same error, if any.
        """
        try:
            self.sync()
            if name is not None:
                self._path = self._path.rename(self._path.with_name(name))
        except Exception as e:
            self._failure = e
            raise
        finally:
            self._file.close()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock an output that is there, as if it were open. Raises FrontierLocked if a crawl has it open."""
    with closing(_locked(path)) as file:
        if not file.is_named(path):  # its crawl has renamed it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        yield


def _locked(path: Path, *, append: bool = False) -> LockFile:
    """Open a file, and lock it, on file systems that have locks. Raises FrontierLocked."""
    with full_disk(path):
        file = LockFile(path, append=append)
        try:
            file.lock(_LOCKED_BYTE)
        except BlockingIOError:
            file.close()
            raise FrontierLocked(
                f"{path} is being written by another crawl, in {os.path.realpath(path.parent)}: stop that crawl first, "
                f"or give each crawl a folder of its own instead of a link to that one"
            ) from None
        except BaseException as e:  # such as Ctrl-C
            if not isinstance(e, OSError) or e.errno not in NO_LOCKS:
                file.close()
                raise
        return file


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Raise StorageFull instead of an OSError that means that the disk or quota is full; others name the file."""
    try:
        yield
    except OSError as e:
        if e.errno in NO_ROOM:
            raise disk_full(path) from e
        e.filename = e.filename or str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable: files created, renamed or deleted there."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def cut(path: Path, size: int) -> None:
    """Truncate a file to `size` bytes, durably."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def cut_incomplete_line(path: Path) -> None:
    """Truncate a file after its last line end, because a killed process may have left an incomplete line.

    Does nothing if there is no such file.
    """
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
