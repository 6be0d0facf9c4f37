"""Files that appear whole or not at all, whoever else writes the same, and however a process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def appearing_file(path: Path, *, opener: Callable[[str, int], int] | None = None) -> Iterator[BinaryIO]:
    """A new file beside `path`, which takes that name when all is written, or is removed.

    Removes what processes that were killed have left of theirs. Errors of the disk name `path`.
    """
    _remove_leftovers(path)
    partial, file = _new(path, opener)
    try:
        with named(path), file:
            yield file
            file.flush()
            os.replace(partial, path)  # before it is closed: until then its lock tells that it is being written
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of a disk that is full, or fails, name the file: those of a write do not by themselves."""
    try:
        yield
    except OSError as e:
        if e.filename is None and e.errno in _OF_THE_DISK:
            e.filename = os.fspath(path)
        raise


def _new(path: Path, opener: Callable[[str, int], int] | None) -> tuple[Path, BinaryIO]:
    """Make a file with a name of its own, locked as long as it is open."""
    while True:
        partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}.partial")
        try:
            file = open(partial, "xb", opener=opener)  # noqa: SIM115 - the caller closes it
        except OSError as e:
            e.filename = os.fspath(path)  # a name that is known
            raise
        if _lock(file.fileno()) is not False and os.fstat(file.fileno()).st_nlink:
            return partial, file
        file.close()  # somebody found it before it was locked, and has removed it, or is about to


def _remove_leftovers(path: Path) -> None:
    """Remove files that were to become `path` and that nobody has open."""
    form = re.compile(re.escape(path.name) + r"\.[0-9a-f]{8}\.partial")
    for name in filter(form.fullmatch, os.listdir(path.parent)):
        with suppress(OSError):
            fd = os.open(path.with_name(name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(fd):
                    os.unlink(path.with_name(name))
            finally:
                os.close(fd)


def _lock(fd: int) -> bool | None:
    """Lock an open file; False if somebody else has, None on a disk without locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return False if e.errno in (errno.EAGAIN, errno.EACCES) else None
    return True
