"""The free bytes of disks, as users other than root may use them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


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
            usage = shutil.disk_usage(folder)
            found.setdefault((folder.stat().st_dev, usage.total), (os.fspath(folder), usage.free))
    return dict(found.values())
