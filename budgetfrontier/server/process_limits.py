"""Limits of a process that has hundreds of frontiers open: open files, and memory that is given back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from budgetfrontier.core.endpoints.open_files import limit_raised

MOST_FILES = 1 << 16
"""Open files up to which the limit of the process is raised, if it may be: an open crawl has seven."""
_M_MMAP_THRESHOLD = -3
_LARGE = 1 << 19
"""Bytes from which on freed memory returns to the system: LMDB allocates 1 and 2 MiB, mostly unused, per open file."""


@contextmanager
def many_frontiers() -> Iterator[None]:
    """Let this process have many frontiers open within a `with` block."""
    _give_back_large_memory()
    with limit_raised(MOST_FILES):
        yield


def _give_back_large_memory() -> None:
    """Let the allocator of glibc not keep large pieces, which it would hand out again as memory that is in use.

    With 1,000 crawls this is the difference between 2 GB and 0.2 GB. Other allocators are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
