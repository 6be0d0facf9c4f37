"""A scheduler for asyncio on a crawl in partitions, one of which moves to another worker."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from budgetfrontier import Admission
from budgetfrontier.aio import Scheduler
from tests.cluster.workers import addressed

SEEDS = [f"https://host{number}.test/" for number in range(10)]


def test_tasks_go_on_when_a_partition_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: Counter[str] = Counter()

    with addressed(tmp_path, monkeypatch) as cluster:

        async def work(scheduler: Scheduler) -> None:
            async for request in scheduler:
                done[request.uri.url] += 1
                if len(done) == 5:
                    await asyncio.to_thread(cluster.take_over, 1)
                found = [f"{request.uri.url}{page}" for page in "ab"] if request.uri.url in SEEDS else []
                scheduler.task_done(request, discovered=found)

        async def crawl() -> None:
            async with Scheduler.connect(cluster.address, maxsize=10) as scheduler:
                tally = await scheduler.add_many([*SEEDS, "https://host10.test/", SEEDS[0]])
                assert (tally.added, tally.full) == (10, 2), "what is queued in all partitions counts"
                waiting = asyncio.create_task(scheduler.add("https://host11.test/"))
                workers = [asyncio.create_task(work(scheduler)) for _ in range(3)]
                assert await waiting is Admission.ADDED
                await scheduler.join()
                assert (await scheduler.stats())["queued"] == 0
                await scheduler.close()
                await asyncio.gather(*workers)

        asyncio.run(crawl())
    pages = {f"{seed}{page}" for seed in SEEDS for page in ("", "a", "b")} | {"https://host11.test/"}
    assert done == Counter(pages), "each once"
