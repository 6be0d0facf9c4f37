"""A sync of a crawl's outputs that is held up until a condition of the crawl is met."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier.crawler import main_loop
from budgetfrontier.crawler.main_loop import MainLoop
from budgetfrontier.crawler.threads import in_disk_thread
from tests.support import PATIENCE

HELD_UP: dict[str, Any] = {"politeness": {"min_delay": 0.0, "delay_factor": 0.0, "per_queue_concurrency": 40}}
FEW_WORKERS: dict[str, Any] = {"fetch": {"robots": "ignore", "concurrency": 2}, "scope": {"accept": ["all"]}}


def held_up(monkeypatch: pytest.MonkeyPatch, frontier: type, *, until: Callable[[MainLoop], bool]) -> list[int]:
    """Hold the first sync up until a condition is met.

    Returns a list that gets the number of leases that were finished by its beginning, and by its end.
    """
    finished, counted, loops = 0, list[int](), list[MainLoop]()
    finish_many, wait = frontier.finish_many, MainLoop._wait  # type: ignore[attr-defined]

    def noted(self: Any, ends: Any) -> Any:
        nonlocal finished
        given = list(ends)
        finished += len(given)
        return finish_many(self, given)

    async def watched(loop: MainLoop, free: int) -> None:
        loops[:] = [loop]
        await wait(loop, free)

    async def held(work: Callable[[], None]) -> None:
        counted.append(finished)
        async with asyncio.timeout(PATIENCE):
            while not until(loops[0]):
                await asyncio.sleep(0.001)
        counted.append(finished)
        await in_disk_thread(work)

    def syncing(work: Callable[[], None]) -> asyncio.Future[None]:
        return in_disk_thread(work) if counted else asyncio.ensure_future(held(work))

    monkeypatch.setattr(frontier, "finish_many", noted)
    monkeypatch.setattr(MainLoop, "_wait", watched)
    monkeypatch.setattr(main_loop, "in_disk_thread", syncing)
    return counted
