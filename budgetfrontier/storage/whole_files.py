"""Files that appear complete or not at all, even if several processes write the same one, or are killed."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

DAMAGED = ".damaged"
"""The suffix of the name of a damaged file or folder that is kept, before its number."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


@contextmanager
def atomic_file(path: Path, *, opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """Open a new file that is renamed to `path` at the end of the block, or removed on an error.

    Files that killed processes have left are removed. Disk errors name `path`.
    """
    _remove_leftovers(path)
    partial, file = _new(path, opener)
    try:
        with naming_file(path), file:
            yield file
            file.flush()
            os.replace(partial, path)  # before it is closed: its lock marks it as being written
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise


@contextmanager
def naming_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to disk errors in this context: those of writes do not have one."""
    try:
        yield
    except OSError as e:
        if e.filename is None and e.errno in _OF_THE_DISK:
            e.filename = os.fspath(path)
        raise


def _new(path: Path, opener: Callable[[str, int], int] | None) -> tuple[Path, BinaryIO]:
    """Create a file with a unique name, locked while it is open."""
    while True:
        partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}.partial")
        try:
            file = open(partial, "xb", opener=opener)  # noqa: SIM115 - the caller closes it
        except OSError as e:
            e.filename = os.fspath(path)  # the name that the user knows
            raise
        if try_lock(file.fileno()) is not False and os.fstat(file.fileno()).st_nlink:
            return partial, file
        file.close()  # another process found it before it was locked, and removes it


def name_for_damaged(path: Path) -> Path:
    """Return a new name beside a damaged file or folder, under which it is kept."""
    numbered = (path.with_name(f"{path.name}{DAMAGED}-{number}") for number in count(1))
    return next(each for each in numbered if not each.exists())


@contextmanager
def held_open(files: Mapping[int, Path]) -> Iterator[dict[int, BinaryIO]]:
    """Open numbered files, so that those that are removed while a frontier is copied are not lost."""
    with ExitStack() as stack:
        held: dict[int, BinaryIO] = {}
        for number, path in files.items():
            with suppress(FileNotFoundError):
                held[number] = stack.enter_context(open(path, "rb"))
        yield held


def _remove_leftovers(path: Path) -> None:
    form = re.compile(re.escape(path.name) + r"\.[0-9a-f]{8}\.partial")
    for name in filter(form.fullmatch, os.listdir(path.parent)):
        with suppress(OSError):
            fd = os.open(path.with_name(name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if try_lock(fd):
                    os.unlink(path.with_name(name))
            finally:
                os.close(fd)


def try_lock(fd: int) -> bool | None:
    """Lock an open file. Return False if another process has locked it, None on a file system without locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return False if e.errno in (errno.EAGAIN, errno.EACCES) else None
    return True
