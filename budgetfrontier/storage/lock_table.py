"""LMDB's lock file: its blocks, and locks on it that outlast a copy of the folder in the same process.

A process that opens an environment believes that it is the first, and resets the table of readers and the writer's
mutex, unless others have a lock on the first byte; and `reader_check` removes the readers of a process that has no lock
on the byte with the number of its pid. LMDB's locks are POSIX locks, which a process loses when it closes any other
descriptor of the file. Here both bytes are locked by a file of our own as well.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from weakref import WeakKeyDictionary, finalize

import lmdb

from budgetfrontier.errors import NO_ROOM
from budgetfrontier.storage.file_locks import LockFile
from budgetfrontier.storage.modes import file_mode

READERS = 256  # the most concurrent readers
_USERS_BYTE = 0
_LACKING = (errno.EROFS, errno.EACCES, errno.ENOENT)
"""The errors of a lock file that LMDB works without, or reports itself."""

_files: WeakKeyDictionary[lmdb.Environment, LockFile] = WeakKeyDictionary()


def reserve(path: Path) -> None:
    """Allocate the blocks of the lock file at `path`: on a full disk, touching them would kill the process (SIGBUS)."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    if path.exists() and path.stat().st_blocks * 512 >= READERS * 64:
        return  # closing it would release the POSIX locks that this process may have on it
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, file_mode(path.parent))
    except OSError as e:
        if e.errno in _LACKING:
            return
        raise
    try:
        os.posix_fallocate(fd, 0, READERS * 64 + 128)
    except OSError as e:
        if e.errno in NO_ROOM:
            raise
    finally:
        os.close(fd)


def secure(env: lmdb.Environment, path: Path) -> None:
    """Lock the lock file at `path` until `close` for an environment just opened; forget readers that have died."""
    try:
        file = LockFile(path)
    except OSError as e:
        if e.errno in _LACKING:
            return
        raise
    _files[env] = file  # open until `close`: closing it earlier would release LMDB's own locks
    finalize(env, file.closing).atexit = False
    env.reader_check()
    if not file.lock(_USERS_BYTE, shared=True):
        return
    with env.begin():
        pass  # with its first reader, LMDB locks the byte of the pid, for the process
    file.unlock_for_process(os.getpid())
    file.lock(os.getpid())


def is_lost(env: lmdb.Environment, path: Path) -> bool:
    """Return whether somebody has removed the lock file at `path`, so that readers register in another one."""
    file = _files.get(env)
    try:
        return file is not None and not file.is_named(path)
    except OSError:  # such as a folder that may not be entered any more
        return False


def close(env: lmdb.Environment) -> None:
    """Close an environment, and then its locks. A call that Ctrl-C has interrupted can be repeated."""
    env.close()
    if (file := _files.get(env)) is not None:
        file.close()
