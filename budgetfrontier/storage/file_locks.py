"""Locks on bytes of a file that belong to one open file, not to the process.

A process loses its POSIX locks on a file when it closes any descriptor of that file, as `shutil.copytree` or `tarfile`
does with a copy of the folder. Open file description locks (Linux, macOS) do not have this; elsewhere there are POSIX
locks. Both exclude each other.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from struct import Struct
from weakref import WeakSet

from budgetfrontier.storage.modes import opener

# `struct flock`: on Linux type, whence, start, length, pid; on macOS start, length, pid, type, whence.
_IS_LINUX = sys.platform == "linux"
_FLOCK = Struct("hhqqi0q" if _IS_LINUX else "qqihh")
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)

_opened: WeakSet[LockFile] = WeakSet()
_mutex = threading.Lock()  # no file is opened in the middle of a fork


class LockFile:
    """An open file with locks on some of its bytes. A forked child closes it, so that locks end with their process.

    With `append`, it is created if it is not there, and all that is written to it is appended.
    """

    def __init__(self, path: Path, *, create: bool = False, append: bool = False) -> None:
        opened = _append if append else _create if create else None
        with _mutex:
            self._file = FileIO(path, "r+", opener=opened)  # its `close` is never interrupted
            _opened.add(self)

    def fileno(self) -> int:
        """Return the descriptor. Raises OSError once the file is closed."""
        if self._file.closed:
            raise OSError(errno.EBADF, "the lock file is closed")
        return self._file.fileno()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def is_named(self, path: Path) -> bool:
        """Return whether `path` still names the file: otherwise, a lock on it excludes nobody."""
        try:
            return os.path.samestat(os.fstat(self.fileno()), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """End the locks, and close the file. A second time does nothing."""
        if _OFD_SETLK is not None and not self._file.closed:  # a child that is just being forked has the file open, too
            with suppress(OSError):  # a kernel that has no such locks
                fcntl.fcntl(self.fileno(), _OFD_SETLK, _flock(fcntl.F_UNLCK, 0, size=0))
        self._file.close()
        _opened.discard(self)

    @property
    def closing(self) -> Callable[[], None]:
        """The function for a finalizer: it runs no line of Python, in which Ctrl-C would be lost and leave it open."""
        return self._file.close

    def disown(self) -> None:
        """Close the file in a forked child, which leaves its parent the locks."""
        self._file.close()

    def lock(self, byte: int, *, shared: bool = False) -> bool:
        """Lock one byte; return whether the lock belongs to the open file. Raises BlockingIOError if others have it."""
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        if _OFD_SETLK is not None:
            try:
                fcntl.fcntl(self.fileno(), _OFD_SETLK, _flock(kind, byte))
                return True
            except OSError as e:
                if e.errno != errno.EINVAL:  # a kernel that has no such locks
                    raise _refused(e) from None
        self.lock_for_process(byte, shared=shared)
        return False

    def lock_for_process(self, byte: int, *, shared: bool = False) -> None:
        """Lock one byte for the process, by a POSIX lock, which shows others the pid. Raises BlockingIOError."""
        try:
            fcntl.fcntl(self.fileno(), fcntl.F_SETLK, _flock(fcntl.F_RDLCK if shared else fcntl.F_WRLCK, byte))
        except OSError as e:
            raise _refused(e) from None

    def unlock_for_process(self, byte: int) -> None:
        """End the process's POSIX lock on one byte."""
        fcntl.fcntl(self.fileno(), fcntl.F_SETLK, _flock(fcntl.F_UNLCK, byte))


def _create(path: str, flags: int) -> int:
    return opener(path, flags | os.O_CREAT)


def _append(path: str, flags: int) -> int:
    return _create(path, flags | os.O_APPEND)


def holder_of(fd: int, byte: int) -> int | None:
    """Return the pid of the other process that has locked a byte, None if there is none.

    0 or less if it has no pid here, or if the lock belongs to an open file. Takes no lock.
    """
    try:
        found = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, byte))[: _FLOCK.size])
    except OSError:
        return None  # a file system without locks
    kind, pid = (found[0], found[4]) if _IS_LINUX else (found[3], found[2])
    return None if kind == fcntl.F_UNLCK else pid


def _flock(kind: int, byte: int, *, size: int = 1) -> bytes:
    """Return a `struct flock` for `size` bytes, 0 for all that follow."""
    return _FLOCK.pack(*((kind, os.SEEK_SET, byte, size, 0) if _IS_LINUX else (byte, size, 0, kind, os.SEEK_SET)))


def _refused(error: OSError) -> OSError:
    """Return the error of a lock that others have as a BlockingIOError, which EACCES, of some systems, is not."""
    return BlockingIOError(*error.args) if error.errno == errno.EACCES else error


def _after_fork() -> None:
    """Close all files in a forked child: its parent's locks belong to them."""
    for file in list(_opened):
        file.disown()
    _mutex.release()


os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_after_fork)
