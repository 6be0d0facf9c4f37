"""A pool of threads for work that would block the event loop, and with it all fetches.

It is separate from the loop's own pool, whose threads may all be busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_threads = ThreadPoolExecutor(2, "crawl")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result. Costs about 50 us: only for work of milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
