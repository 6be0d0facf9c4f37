"""The writer's lock: a lock on a file beside the data, and which process has it."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct

from budgetfrontier.errors import FrontierLocked
from budgetfrontier.store.modes import file_mode

LOCK = "lock"  # the name of the file

# `struct flock`: on Linux type, whence, start, length, pid; on macOS start, length, pid, type, whence.
_FIRST = sys.platform == "linux"
_FLOCK = Struct("hhqqi0q" if _FIRST else "qqihh")

# A POSIX lock does not hold against its own process, and is lost when this closes any descriptor of the file.
_mine: set[str] = set()
_looking = threading.Lock()


class WriterLock:
    """A POSIX lock on a file: forks do not inherit it, and it ends with its process, however. Raises FrontierLocked."""

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path)
        with _looking:
            if self._key in _mine:
                raise FrontierLocked(f"{path.parent} is open already in this process ({os.getpid()})", pid=os.getpid())
            self._fd = _lock(path)
            while not _is_named(self._fd, path):  # who had it took the file away: a backup that was aborted does
                os.close(self._fd)
                self._fd = _lock(path)
            _mine.add(self._key)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. A second time does nothing."""
        with _looking:
            if self._fd >= 0:
                _mine.discard(self._key)  # first: Ctrl-C comes between calls, and whoever is called again goes on
                fd, self._fd = self._fd, -1  # a number may be closed only once: it may be somebody else's by now
                os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the writer's lock of the frontier at `path` without opening it. Raises FrontierLocked."""
    lock = WriterLock(path / LOCK)
    try:
        yield
    finally:
        lock.release()


def lock_holder(path: Path) -> int | None:
    """Return the pid of the process that has the frontier at `path` open for writing, None if no process has.

    0 for a process without a number here: of another machine, or another container. Asks only: it takes no lock, not
    for an instant, and needs no permission to write.
    """
    with _looking:
        if os.path.realpath(path / LOCK) in _mine:
            return os.getpid()
        try:
            fd = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _holder(fd)
        finally:
            os.close(fd)


def _lock(path: Path) -> int:
    """Open and lock the file at `path`, new or old; return its descriptor. Raises FrontierLocked."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_mode(path.parent))
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        pid = _holder(fd)
        os.close(fd)
        if e.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        raise FrontierLocked(
            f"{path.parent} is in use by process {pid or '?'}; stop it first, or steer it from the command line",
            pid=pid or None,
        ) from None
    return fd


def _is_named(fd: int, path: Path) -> bool:
    """Tell whether `path` names the open file: only then does a lock on it keep others out."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> int | None:
    """Return which other process has the lock on an open file, as `lock_holder` does."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if _FIRST else (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
    try:
        lock = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(*asked))[: _FLOCK.size])
    except OSError:
        return None  # a disk without locks: nobody can have one there
    kind, pid = (lock[0], lock[4]) if _FIRST else (lock[3], lock[2])
    if kind == fcntl.F_UNLCK:
        return None
    return pid if pid > 0 else _read_pid(fd)


def _read_pid(fd: int) -> int:
    """Return the pid that the holder has written into a lock file; 0 if it has not yet."""
    line = os.pread(fd, 20, 0).split(b"\n")[0]
    return int(line) if line.isdigit() else 0


def _after_fork() -> None:
    """Forget all locks in a forked child: it has none of its parent's."""
    _mine.clear()
    _looking.release()


os.register_at_fork(before=_looking.acquire, after_in_parent=_looking.release, after_in_child=_after_fork)
