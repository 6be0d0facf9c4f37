"""A policy that fails: whoever asked is told, nobody else, and the scheduler goes on."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Lease, Settings
from budgetfrontier.aio import Scheduler
from budgetfrontier.aio.frontier_thread import FAILED
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import PolicyError
from tests.aio.loops import in_loop
from tests.support import logged

FAILING: set[str] = set()
"""What the policies of this module fail on."""


def cost(uri: CrawlUri) -> Any:
    return "dear" if uri.url in FAILING else 1


def precedence(uri: CrawlUri, *, precedence: int) -> Any:
    return "high" if f"{uri.url}#" in FAILING else precedence


SETTINGS = Settings.from_dict(
    {
        "frontier": {
            "cost_policy": f"{__name__}:cost",
            "precedence_policy": f"{__name__}:precedence",
            "politeness": {"min_delay": 0, "delay_factor": 0},
        }
    }
)


@pytest.fixture(autouse=True)
def fine_again() -> Any:
    yield
    FAILING.clear()


@pytest.mark.parametrize("maxsize", [0, 10])
@in_loop
async def test_only_who_added_it_is_told(tmp_path: Path, maxsize: int) -> None:
    FAILING.add("http://b.test/")
    async with Scheduler(tmp_path / "f", SETTINGS, maxsize=maxsize) as scheduler:
        urls = [f"http://{host}.test/" for host in "abc"]
        told = await asyncio.gather(*map(scheduler.add, urls), return_exceptions=True)
        assert (told[0], told[2]) == (Admission.ADDED, Admission.ADDED)
        assert isinstance(told[1], PolicyError)
        with pytest.raises(PolicyError, match=r"returned 'dear' for http://b\.test/"):
            await scheduler.add_many(urls)
        FAILING.clear()
        assert await scheduler.add("http://b.test/") is Admission.ADDED


@pytest.mark.parametrize("force", [False, True])
@in_loop
async def test_what_was_admitted_before_a_policy_failed_is_not_admitted_again(tmp_path: Path, force: bool) -> None:
    FAILING.add("http://b.test/")
    uris: list[str | CrawlUri] = [
        CrawlUri(f"http://a.test/{number}", payload=bytes(900_000), force=force) for number in range(10)
    ]
    async with Scheduler(tmp_path / "f", SETTINGS) as scheduler:
        told = await asyncio.gather(*map(scheduler.add, [*uris, "http://b.test/"]), return_exceptions=True)
        assert told[:-1] == [Admission.ADDED] * 10
        assert isinstance(told[-1], PolicyError)
        assert await scheduler.qsize() == 10


@in_loop
async def test_who_waits_for_a_request_is_told(tmp_path: Path) -> None:
    async with Scheduler(tmp_path / "f", SETTINGS) as scheduler:
        await scheduler.add("http://a.test/")
        FAILING.add("http://a.test/#")
        told = await asyncio.gather(scheduler.get(), scheduler.get(), return_exceptions=True)
        assert [type(each) for each in told] == [PolicyError] * 2
        FAILING.clear()
        request = await scheduler.get()
        assert request.uri.url == "http://a.test/"
        FAILING.add("http://a.test/x")
        scheduler.task_done(request, discovered=["http://a.test/x"])  # tells nobody: its lease stays out
        assert (await scheduler.call(lambda f: f.summary())).in_process == 1


@in_loop
async def test_who_waits_for_room_is_told_when_a_policy_fails(tmp_path: Path) -> None:
    settings = Settings.from_dict({"frontier": {**SETTINGS.to_dict()["frontier"], "max_queued": 1}})
    async with Scheduler(tmp_path / "f", settings) as scheduler:
        await scheduler.add("http://a.test/")
        adding = asyncio.create_task(scheduler.add("http://b.test/"))
        await scheduler.call(lambda frontier: None)
        FAILING.add("http://b.test/")
        scheduler.task_done(await scheduler.get())
        with pytest.raises(PolicyError):
            await adding


@in_loop
async def test_who_can_be_served_is_served_when_a_policy_fails_for_another_queue(tmp_path: Path) -> None:
    async with Scheduler(tmp_path / "f", SETTINGS) as scheduler:
        await scheduler.add_many([*(f"http://a.test/{number}" for number in range(3)), "http://b.test/"])
        FAILING.add("http://b.test/#")
        for number in range(3):
            first, second = await asyncio.gather(scheduler.get(), scheduler.get(), return_exceptions=True)
            assert isinstance(first, Lease) and first.uri.url == f"http://a.test/{number}"
            assert isinstance(second, PolicyError)
            scheduler.task_done(first)
        FAILING.clear()
        assert (await scheduler.get()).uri.url == "http://b.test/"


@in_loop
async def test_a_request_that_took_too_long_is_logged_though_a_policy_fails_for_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(1e9)
    async with Scheduler(tmp_path / "f", SETTINGS, ttl=60.0, clock=clock, grace=0) as scheduler:
        await scheduler.add_many([f"http://{host}.test/" for host in "abcd"])
        requests = [await scheduler.get() for _ in range(4)]

        def let_one_expire(frontier: Frontier) -> None:
            for request in (requests[0], requests[2], requests[3]):
                frontier.renew(request, 1000.0)
            clock.advance(61.0)

        await scheduler.call(let_one_expire)
        FAILING.add("http://c.test/x")
        scheduler.task_done(requests[0])
        scheduler.task_done(requests[1])
        scheduler.task_done(requests[2], discovered=["http://c.test/x"])
        scheduler.task_done(requests[3])
        total = await scheduler.call(lambda frontier: frontier.summary())
        assert (total.succeeded, total.in_process) == (2, 1)
        [late] = [record.getMessage() for record in caplog.records if "has ended" in record.getMessage()]
        assert late.startswith(f"lease {requests[1].id} of http://b.test/ has ended; ")
        assert logged(caplog, "budgetfrontier.aio", level=logging.ERROR) == [FAILED]
