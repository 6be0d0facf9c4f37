"""The same scheduler under anyio, on its asyncio backend: cancel scopes, task groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest

from budgetfrontier import Frontier, FrontierClosed
from budgetfrontier.aio import Scheduler
from tests.aio.loops import drain, page
from tests.support import PATIENCE


def test_a_crawl_in_a_task_group() -> None:
    done: Counter[str] = Counter()

    async def work(scheduler: Scheduler) -> None:
        async for request in scheduler:
            requests = [request]
            with anyio.move_on_after(0):
                requests.append(await scheduler.get())  # cancelled at once, again and again, unless it is served first
            for each in requests:
                done[each.uri.url] += 1
                scheduler.task_done(each)

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with Scheduler(":memory:") as scheduler, anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(work, scheduler)
                await scheduler.add_many(page(number, host) for number in range(20) for host in "abc")
                await scheduler.join()
                await scheduler.close()

    anyio.run(main)
    assert len(done) == 60 and set(done.values()) == {1}


def test_a_cancelled_scope_closes_the_frontier(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            async with Scheduler(tmp_path, grace=3600) as scheduler, anyio.create_task_group() as group:
                await scheduler.add_many([page(1), page(2)])
                await scheduler.get()
                group.start_soon(scheduler.join)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        with pytest.raises(FrontierClosed):
            await scheduler.get()
        with Frontier.open(tmp_path) as frontier:  # at once: nobody holds it any more
            assert frontier.summary().queued == 2
        async with Scheduler(tmp_path) as scheduler:
            assert await drain(scheduler, 2) == [page(1), page(2)]

    anyio.run(main)
