"""The ends of a job's log files. Names come from the folder itself, never from the request."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

CRAWL_LOG = "crawl.log"
LARGEST = 128 << 10
"""Bytes that are read of a file at a time."""


class LogFile(NamedTuple):
    """A log file: its name, size, and time of the last change."""

    name: str
    size: int
    changed: float


class Piece(NamedTuple):
    """Whole lines of a file, and the byte at which they begin."""

    lines: list[str]
    start: int


def log_files(folder: Path) -> list[LogFile]:
    """Return the regular files in a folder, by name; none if there is no such folder."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append(LogFile(entry.name, status.st_size, status.st_mtime))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def before(folder: Path, name: str, end: int | None) -> Piece:
    """Return the last lines of a file before a byte, or before its end. Raises FileNotFoundError, OSError."""
    with _opened(folder, name) as file:
        size = os.fstat(file.fileno()).st_size
        end = size if end is None else min(end, size)
        start = max(end - LARGEST, 0)
        file.seek(start)
        data = file.read(end - start)
    if start:
        cut = data.find(b"\n") + 1  # 0: a line longer than all of this, of which the end is shown
        start, data = start + cut, data[cut:]
    return Piece(data.decode("utf-8", "replace").split("\n")[: None if data[-1:] != b"\n" else -1], start)


def _opened(folder: Path, name: str) -> BinaryIO:
    """Open a regular file. One that was replaced by a link or a pipe since it was listed is not followed."""
    fd = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(fd, "rb")  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise FileNotFoundError(name)
    return file
