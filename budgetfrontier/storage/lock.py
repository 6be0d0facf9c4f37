"""The writer's lock, on a file beside the data, and the process that holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetfrontier.errors import FrontierLocked
from budgetfrontier.storage.file_locks import LockFile, holder_of
from budgetfrontier.storage.last_note import COPIED_FILE

LOCK = "lock"  # the name of the file
SERVER_LOCK = ".serve.lock"
"""The file in a folder of jobs that the server of them has locked."""
_LONGEST_NOTE = 1 << 14  # bytes

_BYTE = 0  # of the file: its lock makes a process the writer
_PID_BYTE = 1  # locked for the process too: the kernel names its pid, in any container; lost by a copy of the file

# A POSIX lock, where there are no others, does not exclude other threads of its process, and is lost when the process
# closes any descriptor of the file. Therefore the locks held are listed here, by the real path of their file; they are
# taken under the mutex.
_held: dict[str, WriterLock] = {}
_mutex = threading.Lock()


class WriterLock:
    """A lock on a file. A fork does not inherit it; it ends with its process. Raises FrontierLocked."""

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path)
        self._path = path
        self._file: LockFile | None = None
        try:
            with _mutex:
                if self._key in _held:
                    message = f"{path.parent} is open already in this process ({os.getpid()})"
                    raise FrontierLocked(message, pid=os.getpid())
                self._file = _lock(path)
                while not self._file.is_named(path):  # the holder removed it, as an aborted backup does
                    self._file.close()
                    self._file = _lock(path)
                _held[self._key] = self
            fd = self._file.fileno()
            self._pid_line = f"{os.getpid()} {os.fstat(fd).st_ino}\n".encode()
            self.note = _read_note(fd)
            """The note of an earlier holder, which is below its pid; None if nobody has held the lock."""
            self.write_note(self.note or b"")
        except BaseException:  # a full disk, or Ctrl-C
            self.release()
            raise

    def write_note(self, note: bytes) -> None:
        """Replace the note below the pid. Raises OSError."""
        fd = self._fileno()
        os.pwrite(fd, self._pid_line + note, 0)
        os.ftruncate(fd, len(self._pid_line + note))

    def is_lost(self) -> bool:
        """Return whether somebody has removed the file, so that others can lock a new one. One `stat`."""
        try:
            return self._file is not None and not self._file.is_named(self._path)
        except OSError:  # such as a folder that may not be entered any more
            return False

    def touch(self) -> None:
        """Set the modification time of the file to now."""
        os.utime(self._fileno())

    def release(self) -> None:
        """Release the lock. A second time does nothing.

        A call that Ctrl-C has interrupted can be repeated. It takes no mutex, which an interrupt could leave locked: as
        long as the lock is listed, no other thread opens the file.
        """
        if self._file is not None:
            self._file.close()
        if _held.get(self._key) is self:
            del _held[self._key]

    def _fileno(self) -> int:
        assert self._file is not None
        return self._file.fileno()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the writer's lock of the frontier at `path` without opening it. Raises FrontierLocked."""
    lock = WriterLock(path / LOCK)
    try:
        yield
    finally:
        lock.release()


def server_of(path: Path) -> int | None:
    """Return the pid of the server of the folder of jobs that the frontier at `path` is in, None if none serves it."""
    if path.name != "frontier":
        return None
    return lock_holder(Path(os.path.abspath(path)).parent.parent, SERVER_LOCK)


def lock_holder(path: Path, name: str = LOCK) -> int | None:
    """Return the pid of the process that has the frontier at `path` open for writing, None if no process has.

    0 for a process that has no pid here: on another machine, or in another container. Takes no lock, and needs no
    permission to write. `own_pid` returns the pid that it has where it runs.
    """
    return _pid_in(path / name, _holder)


def own_pid(path: Path) -> int:
    """Return the pid that the last holder of the lock has, or had, in its own container; 0 if none is known."""
    return _pid_in(path / LOCK, _read_pid) or 0


def _pid_in(file: Path, read: Callable[[int], int | None]) -> int | None:
    """Return the pid that `read` finds by the descriptor of a lock's file: this process's own if it holds the lock.

    None if there is no file that can be read.
    """
    with _mutex:
        if os.path.realpath(file) in _held:
            return os.getpid()
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return read(fd)
        finally:
            os.close(fd)


def read_note(path: Path) -> bytes | None:
    """Return the note of the lock's last holder, below its pid; an empty one if this process holds it.

    None if nobody has ever held it: the frontier at `path` is a copy that no writer has opened.
    """
    with _mutex:
        if os.path.realpath(path / LOCK) in _held:
            return b""
        try:
            fd = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            return b""
        try:
            return _read_note(fd)
        finally:
            os.close(fd)


def _lock(path: Path) -> LockFile:
    """Open (or create) and lock the file at `path`. Raises FrontierLocked."""
    file = LockFile(path, create=True)
    try:
        if file.lock(_BYTE):
            file.lock_for_process(_PID_BYTE)
    except BlockingIOError:
        pid = _holder(file.fileno())
        file.close()
        who = f"process {pid}" if pid else "a process in another container or on another machine"
        message = f"{path.parent} is in use by {who}; stop it first, or steer it from the command line"
        raise FrontierLocked(message, pid=pid or None) from None
    except BaseException:  # Ctrl-C
        file.close()
        raise
    return file


def _holder(fd: int) -> int | None:
    """Return the pid of the other process that has the lock on an open file, as `lock_holder` does."""
    pid = holder_of(fd, _BYTE)
    if pid is None or pid > 0:
        return pid
    named = holder_of(fd, _PID_BYTE)
    return _read_pid(fd) if named is None else max(named, 0)


def _read_note(fd: int) -> bytes | None:
    """Return the text below the first line; COPIED_FILE if there is none, and the first line is another file's."""
    content = os.pread(fd, _LONGEST_NOTE, 0)
    line, _, note = content.partition(b"\n")
    inode = line.partition(b" ")[2]
    if not note and inode and inode != str(os.fstat(fd).st_ino).encode():
        return COPIED_FILE
    return note if content else None


def _read_pid(fd: int) -> int:
    """Return the pid that the holder has written into a lock file, before its inode; 0 if there is none yet."""
    pid = os.pread(fd, 20, 0).split(b"\n")[0].partition(b" ")[0]
    return int(pid) if pid.isdigit() else 0


def _after_fork() -> None:
    """Forget all locks in a forked child, which does not inherit them."""
    _held.clear()
    _mutex.release()


os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_after_fork)
