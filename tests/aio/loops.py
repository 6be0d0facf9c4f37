"""Running tests in a loop: bounded, and the usual pages."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from budgetfrontier import Lease
from budgetfrontier.aio import Scheduler
from tests.support import PATIENCE

P = ParamSpec("P")


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test in a loop of its own; one that hangs fails."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), PATIENCE)

        asyncio.run(bounded())

    return run


def page(number: int, host: str = "a") -> str:
    return f"https://{host}.test/{number}"


async def drain(scheduler: Scheduler, count: int) -> list[str]:
    """Get so many requests, one after another, and be done with them: their URLs."""
    urls = []
    for _ in range(count):
        request = await scheduler.get()
        urls.append(request.uri.url)
        scheduler.task_done(request)
    return urls


async def waiting(scheduler: Scheduler) -> asyncio.Task[Lease]:
    """A task that waits in `get`."""
    task = asyncio.create_task(scheduler.get())
    await asyncio.sleep(0)
    return task
