"""The free bytes of disks, as users other than root may use them."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec


def free_bytes(path: str | os.PathLike[str]) -> int:
    """Return the free bytes of the disk that a file or folder is on. Raises OSError if there is none."""
    return shutil.disk_usage(path).free


def free_by_disk(folders: Iterable[Path]) -> dict[str, int]:
    """Return the free bytes of each disk, by the first of some folders on it; those that do not exist are left out.

    A folder with a quota of its own, and so another size, counts as a disk.
    """
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for folder in folders:
        with suppress(OSError):
            disk, free = _disk_of(folder)
            found.setdefault(disk, (os.fspath(folder), free))
    return dict(found.values())


NEW_FRONTIER = 1 << 18
"""Bytes of the files of a frontier without URIs, about."""


class FolderDisk(msgspec.Struct):
    """The disk of a folder that has a frontier for each partition: its free bytes, and how far the frontiers grew."""

    disk: str
    """The identity of the disk, among those of all machines."""
    free: int
    grown: int
    """The bytes of the frontiers' files, beyond those of new frontiers."""


def folder_disk(folder: Path) -> FolderDisk:
    """Return the disk of the folder of a worker. O(partitions in it). Raises OSError."""
    (device, total), free = _disk_of(folder)
    grown = 0
    for frontier in folder.glob("partition-*/frontier"):
        with suppress(OSError):  # it is being removed
            grown += max(_size(frontier) - NEW_FRONTIER, 0)
    return FolderDisk(f"{socket.gethostname()}:{device}:{total}", free, grown)


class FilledDisk(NamedTuple):
    """A disk that a crawl writes to: its free bytes, and those that the crawl's files on it take."""

    name: str
    free: int
    frontier: int
    """The bytes of the frontier's file, which grows with each URI."""
    outputs: int
    """The bytes of logs and WARC files, which grow with each fetch."""


def filled_disks(path: Path) -> list[FilledDisk]:
    """Return the disks of the frontier at `path`, and of the folders `logs` and `warcs` beside it. O(files).

    The first is the frontier's, "disk"; one that only a folder beside it is on is called after that.
    """
    found: dict[tuple[int, int], FilledDisk] = {}
    for folder in (path, path.parent / "logs", path.parent / "warcs"):
        with suppress(OSError):
            disk, free = _disk_of(folder)
            size = _size(folder)
            name = "disk" if folder is path else f"disk of {folder.name}"
            known = found.get(disk, FilledDisk(name, free, 0, 0))
            if folder is path:
                found[disk] = known._replace(frontier=size)
            else:
                found[disk] = known._replace(outputs=known.outputs + size)
    return list(found.values())


def _size(folder: Path) -> int:
    """Return the bytes that the files of a folder take. Raises OSError."""
    return sum(file.stat().st_blocks * 512 for file in os.scandir(folder) if file.is_file())


def _disk_of(folder: Path) -> tuple[tuple[int, int], int]:
    """Return what tells the disk of a folder from others, and its free bytes."""
    usage = shutil.disk_usage(folder)
    return (folder.stat().st_dev, usage.total), usage.free
