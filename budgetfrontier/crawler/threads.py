"""Threads for work that would block the event loop, and with it all fetches.

They are separate from the loop's own pool, which may be busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_threads = ThreadPoolExecutor(2, "crawl")
_disk = ThreadPoolExecutor(4, "disk")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result. Costs about 50 us: only for work of milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def in_disk_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work` in one of the threads that wait for the disk; return the future of its result."""
    return asyncio.get_running_loop().run_in_executor(_disk, work)
