"""A process that takes requests from a shared frontier: `python -m tests.aio.worker ADDRESS FILE`.

It writes a line `leased URL` or `done URL` for each, before and after it reports it done, until nothing is left.
"""

from __future__ import annotations

import asyncio
import sys

from budgetfrontier.aio import Scheduler

TTL = 5.0


async def main(address: str, file: str) -> None:
    """Take requests until the crawl is over, with five tasks."""
    with open(file, "a", encoding="utf-8") as lines:

        async def work(scheduler: Scheduler) -> None:
            async for request in scheduler:
                lines.write(f"leased {request.uri.url}\n")
                lines.flush()
                await asyncio.sleep(0.002)
                depth = request.uri.url.count("/") - 3
                found = [f"{request.uri.url}/{name}" for name in "ab"] if depth < 2 else []
                scheduler.task_done(request, discovered=found)
                await scheduler.call(lambda frontier: None)  # what was reported before is on the server's disk
                lines.write(f"done {request.uri.url}\n")
                lines.flush()

        async with Scheduler.connect(address, ttl=TTL) as scheduler, asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(work(scheduler))
            await scheduler.join()
            await scheduler.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
