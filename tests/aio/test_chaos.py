"""All at once: consumers that are cancelled, fail, give up and answer twice, little room, and closing at any moment."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from budgetfrontier import Admission, Frontier, FrontierClosed, Outcome
from budgetfrontier.aio import Scheduler
from tests.aio.loops import in_loop, page
from tests.support import make_settings

URLS = [page(number, host) for number in range(40) for host in "abcde"]


@pytest.mark.parametrize("seed", range(8))
@in_loop
async def test_every_uri_is_done_once_whatever_happens(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    done: Counter[str] = Counter()

    async def consume(scheduler: Scheduler) -> None:
        while True:
            try:
                async with asyncio.timeout(chance.choice((0.0, 0.0005, 0.005, 60.0))):
                    request = await scheduler.get()
            except TimeoutError:
                continue
            except FrontierClosed:
                return
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.002)
            outcome = chance.choice((Outcome.SUCCESS, Outcome.SUCCESS, Outcome.RETRY, Outcome.DEFERRED))
            try:
                scheduler.task_done(request, outcome)
            except FrontierClosed:
                return
            done[request.uri.url] += outcome is Outcome.SUCCESS
            if chance.random() < 0.1:
                with pytest.raises((ValueError, FrontierClosed)):
                    scheduler.task_done(request)

    async def produce(scheduler: Scheduler, urls: list[str]) -> None:
        for url in urls:
            with suppress(TimeoutError, FrontierClosed):
                async with asyncio.timeout(chance.choice((0.001, 60.0))):
                    assert await scheduler.add(url) is not Admission.INVALID

    async def run() -> bool:
        settings = make_settings(concurrency=3, retry={"delay": 0, "max_retries": 1000})
        when_full: Literal["wait", "drop"] = "wait" if chance.random() < 0.5 else "drop"
        async with Scheduler(tmp_path, settings, maxsize=chance.choice((0, 3)), when_full=when_full, grace=0) as s:
            consumers = [asyncio.create_task(consume(s)) for _ in range(10)]
            urls = chance.sample(URLS, len(URLS))
            producers = [asyncio.create_task(produce(s, urls[start::4])) for start in range(4)]
            if chance.random() < 0.7:
                await asyncio.sleep(chance.random() * 0.05)
                for task in chance.sample(consumers, 3):
                    task.cancel()
            else:
                await asyncio.gather(*producers)
                await s.join()
            over = (await s.stats())["seen"] == len(URLS) and await s.idle()
            await s.close(grace=chance.choice((0.0, 0.001, 0.05)))
            await asyncio.gather(*consumers, *producers, return_exceptions=True)
            return over

    while not await run():
        pass
    async with Scheduler(tmp_path) as scheduler:
        await scheduler.call(Frontier.check)
        total = await scheduler.call(Frontier.summary)
    assert total.succeeded == len(URLS) and set(done) >= set(URLS)
    assert total.dead == total.failed == 0
