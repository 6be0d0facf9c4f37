"""Threads for work that would block the event loop, and with it every fetch.

They are a pool of their own: all threads of the loop's may be waiting for DNS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_threads = ThreadPoolExecutor(2, "crawl")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. Costs about 50 us: for work of milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
