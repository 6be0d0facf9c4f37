"""Work that would hold up every fetch, done beside the event loop.

In threads of its own: those of the loop may all wait for DNS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_threads = ThreadPoolExecutor(2, "aside")


async def aside(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. Costs about 50 us: for work of milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)
