"""Copies of a frontier that simulations change: in memory if there is room, and removed by the end or the next one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.core.units import format_size
from budgetfrontier.errors import StorageFull
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.whole_files import try_lock

MEMORY = Path("/dev/shm")
_PREFIX = "budgetfrontier-simulate-"
GROWTH = 2
"""The factor by which a copy may grow, for URIs are found in a simulation."""
_LEAST = 64 << 20  # bytes


class CopyPlace(NamedTuple):
    """Where copies are made, and how many bytes they may take there."""

    folder: Path
    needed: int
    free: int


def place(size: int, copies: int, *, memory: int | None = None) -> CopyPlace:
    """Return where copies of a frontier of `size` bytes fit: in memory, `memory` bytes at the most, else in TMPDIR.

    One more, from which they are made, does not grow. Without `memory`, half of the memory that is free at the most.
    Raises StorageFull.
    """
    needed = size + copies * max(GROWTH * size, _LEAST)
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        free = min(free_bytes(MEMORY), _available())
        if needed <= (free // 2 if memory is None else min(memory, free)):
            return CopyPlace(MEMORY, needed, free)
    folder = Path(tempfile.gettempdir())
    free = free_bytes(folder)
    if needed > free:
        raise StorageFull(
            f"a simulation may need {format_size(needed)} for its copies of the frontier, and {folder} has "
            f"{format_size(free)}: name a folder with more room in the environment variable TMPDIR"
        )
    return CopyPlace(folder, needed, free)


def _available() -> int:
    """Return how many bytes of memory are available; 0 if that is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:")), 0)
    except OSError:
        return 0


@contextmanager
def copied(copy: Callable[[Path], object], copies: int, where: Path) -> Iterator[list[Path]]:
    """Make copies of a frontier, each by calling `copy`, below `where`, and remove them at the end of the block."""
    with room(where) as made:
        folders = [made / str(number) for number in range(copies)]
        for folder in folders:
            copy(folder)
        yield folders


@contextmanager
def room(where: Path) -> Iterator[Path]:
    """Make a folder below `where`, and remove it at the end of the block; a kill leaves it to `remove_abandoned`."""
    made, lock = _new(where)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the copies of this user's simulations that were killed."""
    for folder in {MEMORY, Path(tempfile.gettempdir())}:
        for made in folder.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                lock = _open(made)
                try:
                    if os.fstat(lock).st_uid == os.getuid() and try_lock(lock):
                        shutil.rmtree(made, ignore_errors=True)
                finally:
                    os.close(lock)


def _new(where: Path) -> tuple[Path, int]:
    """Make a folder, locked as long as its process lives or until the descriptor is closed."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
        with suppress(FileNotFoundError):  # another process found it before it was locked, and removes it
            lock = _open(made)
            if try_lock(lock) is not False and made.exists():
                return made, lock
            os.close(lock)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
