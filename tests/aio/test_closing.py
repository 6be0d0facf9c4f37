"""How it ends: gracefully, in a hurry, cancelled, by an error, by SIGKILL. And the loop never waits for the disk."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from budgetfrontier import Admission, Frontier, FrontierClosed, FrontierLocked, Reader, Settings, StorageFull
from budgetfrontier.aio import Scheduler
from budgetfrontier.core.model import RunEnd
from budgetfrontier.testing import fail_commit
from tests.aio.loops import drain, in_loop, page, waiting
from tests.support import PATIENCE, child_process

LONG = 3600.0


@in_loop
async def test_close_lets_go_of_all_who_wait() -> None:
    scheduler = await Scheduler(":memory:", maxsize=1).open()
    consumers = [await waiting(scheduler) for _ in range(3)]
    await scheduler.call(lambda frontier: frontier.pause())  # so that what is added stays
    await scheduler.add(page(1))
    adding = asyncio.create_task(scheduler.add(page(2)))
    joining = asyncio.create_task(scheduler.join())
    await scheduler.qsize()
    await scheduler.close()
    await scheduler.close()
    await joining
    assert await adding is Admission.FULL
    for consumer in consumers:
        with pytest.raises(FrontierClosed):
            await consumer
    await scheduler.join()
    stats = await scheduler.stats()
    assert (stats["queued"], stats["pending"], stats["waiting_consumers"], stats["closed"]) == (1, 0, 0, 1)


@in_loop
async def test_nothing_works_before_and_after() -> None:
    scheduler = Scheduler(":memory:")
    for _ in range(2):
        for call in (scheduler.get, scheduler.idle, partial(scheduler.add, page(1)), partial(scheduler.call, repr)):
            with pytest.raises(FrontierClosed):
                await call()
        with pytest.raises(FrontierClosed):
            scheduler.task_done()
        if "new" in repr(scheduler):
            await scheduler.open()
            await scheduler.close()
    with pytest.raises(FrontierClosed):
        await scheduler.open()
    await Scheduler(":memory:").close()  # never opened


@in_loop
async def test_what_is_queued_is_for_the_next_run(tmp_path: Path) -> None:
    async with Scheduler(tmp_path) as scheduler:
        await scheduler.add_many(page(number) for number in range(5))
        assert await drain(scheduler, 2) == [page(0), page(1)]
    async with Scheduler(tmp_path) as scheduler:
        assert await drain(scheduler, 3) == [page(2), page(3), page(4)]
        await scheduler.join()


@in_loop
async def test_close_waits_for_what_is_out(tmp_path: Path) -> None:
    async with Scheduler(tmp_path, grace=LONG) as scheduler:
        await scheduler.add_many([page(1), page(2)])
        request = await scheduler.get()
        closing = asyncio.create_task(scheduler.close())
        await asyncio.sleep(0)
        with pytest.raises(FrontierClosed):
            await scheduler.get()
        assert await scheduler.add(page(3)) is Admission.ADDED  # a link of a page under way is not lost
        assert not closing.done()
        scheduler.task_done(request, discovered=[page(4)])
        await closing
    async with Scheduler(tmp_path) as scheduler:
        assert await drain(scheduler, 3) == [page(2), page(3), page(4)]


@in_loop
async def test_close_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with Scheduler(tmp_path, grace=0.01) as scheduler:
        await scheduler.add_many([page(1), page(2)])
        request = await scheduler.get()
    with pytest.raises(FrontierClosed):
        scheduler.task_done(request)
    async with Scheduler(tmp_path) as scheduler:
        request = await scheduler.get()
        assert (request.uri.url, request.delivery) == (page(1), 1)  # given back uncounted, and first again
        scheduler.task_done(request)


@in_loop
async def test_what_ends_after_the_grace_is_told_that_it_was_not_counted(tmp_path: Path) -> None:
    gate = threading.Event()
    async with Scheduler(tmp_path) as scheduler:
        await scheduler.add(page(1))
        request = await scheduler.get()
        busy = asyncio.create_task(scheduler.call(lambda frontier: gate.wait(PATIENCE)))  # the thread is not done yet
        closing = asyncio.create_task(scheduler.close(grace=0))
        await asyncio.sleep(0)
        with pytest.raises(FrontierClosed):
            scheduler.task_done(request, discovered=[page(2)])
        gate.set()
        await asyncio.gather(busy, closing)
    async with Scheduler(tmp_path) as scheduler:
        assert await drain(scheduler, 1) == [page(1)] and await scheduler.idle()


@in_loop
async def test_a_new_scheduler_takes_urls_as_they_are_written_and_one_made_before_goes_on(tmp_path: Path) -> None:
    settings = Settings.from_dict({"frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}}})
    with Frontier.open(tmp_path / "old", settings) as frontier:
        frontier.schedule("https://e.test/?b=2&a=1")
    async with Scheduler(tmp_path / "new", settings) as scheduler:
        await scheduler.add("https://e.test/?b=2&a=1")
    for folder, told in (("old", Admission.DUPLICATE), ("new", Admission.ADDED)):
        async with Scheduler(tmp_path / folder, settings) as scheduler:
            assert await scheduler.add("https://www.e.test/?b=2&a=1") is told
            assert await scheduler.add("https://e.test/?b=2&a=1&utm_source=x") is told
            assert await scheduler.add("https://me@e.test/?a=1&b=2#top") is Admission.DUPLICATE


@in_loop
async def test_a_second_close_may_be_more_impatient() -> None:
    async with Scheduler(":memory:", grace=LONG) as scheduler:
        await scheduler.add(page(1))
        await scheduler.get()
        patient = asyncio.create_task(scheduler.close())
        await asyncio.sleep(0)
        assert not patient.done()
        await scheduler.close(grace=0)
        await patient
        with pytest.raises(FrontierClosed):
            await scheduler.add(page(2))


@in_loop
async def test_close_in_mid_delivery_loses_nothing(tmp_path: Path) -> None:
    async with Scheduler(tmp_path, grace=LONG) as scheduler:
        consumer = await waiting(scheduler)
        await scheduler.qsize()
        adding = asyncio.create_task(scheduler.add(page(1)))
        await asyncio.sleep(0)
        await scheduler.close()
        assert await adding is Admission.ADDED
        with pytest.raises(FrontierClosed):
            await consumer
    async with Scheduler(tmp_path) as scheduler:
        assert await drain(scheduler, 1) == [page(1)]


@in_loop
async def test_iterating_ends_with_closing() -> None:
    async def work(scheduler: Scheduler) -> int:
        count = 0
        async for request in scheduler:
            scheduler.task_done(request)
            count += 1
        return count

    async with Scheduler(":memory:") as scheduler:
        workers = [asyncio.create_task(work(scheduler)) for _ in range(5)]
        await scheduler.add_many(page(number) for number in range(100))
        await scheduler.join()
        await scheduler.close()
        assert sum(await asyncio.gather(*workers)) == 100


@pytest.mark.parametrize("when", ["in the block", "while closing"])
@in_loop
async def test_a_cancelled_owner_leaves_a_closed_frontier(when: str, tmp_path: Path) -> None:
    got = asyncio.Event()

    async def crawl() -> None:
        async with Scheduler(tmp_path, grace=LONG) as scheduler:
            await scheduler.add(page(1))
            await scheduler.get()
            got.set()
            if when == "in the block":
                await asyncio.sleep(LONG)

    task = asyncio.create_task(crawl())
    await got.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with Frontier.open(tmp_path) as frontier:
        assert frontier.lease(1)[0].delivery == 1


@in_loop
async def test_who_is_cancelled_while_opening_leaves_a_closed_frontier(tmp_path: Path) -> None:
    opening = asyncio.create_task(Scheduler(tmp_path).open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    Frontier.open(tmp_path).close()


@in_loop
async def test_errors_of_the_block_are_told_and_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Scheduler(":memory:", grace=LONG) as scheduler:
            await scheduler.add(page(1))
            await scheduler.get()
            raise ZeroDivisionError


@in_loop
async def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    async with Scheduler(tmp_path):
        with pytest.raises(FrontierLocked):
            async with Scheduler(tmp_path):
                pass


@in_loop
async def test_a_full_disk_is_told_to_all(tmp_path: Path) -> None:
    scheduler = await Scheduler(tmp_path).open()
    consumer = await waiting(scheduler)
    await scheduler.call(fail_commit)
    assert await scheduler.add(page(1)) is Admission.ADDED
    with pytest.raises(StorageFull):
        await scheduler.call(Frontier.commit)
    with pytest.raises(StorageFull):
        await asyncio.gather(scheduler.join(), scheduler.add(page(2)))
    with pytest.raises(StorageFull):
        await scheduler.close()
    assert consumer.done()
    async with Scheduler(tmp_path) as scheduler:  # as of the last commit
        assert await scheduler.idle()


@in_loop
async def test_an_error_of_a_call_harms_nobody() -> None:
    async with Scheduler(":memory:") as scheduler:
        with pytest.raises(ZeroDivisionError):
            await scheduler.call(lambda frontier: 1 // 0)
        assert await scheduler.call(lambda frontier: frontier.adjust(queue_total_budget=5).id) == 1
        assert await scheduler.add(page(1)) is Admission.ADDED


@in_loop
async def test_the_loop_goes_on_while_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    disk, waits = threading.Event(), threading.Event()

    class SlowDisk:
        def on_commit(self, frontier: Frontier) -> None:
            waits.set()
            disk.wait(PATIENCE)

    async with Scheduler(tmp_path, hooks=[SlowDisk()]) as scheduler:
        await scheduler.add_many([page(1), page(2)])
        request = await scheduler.get()
        committing = asyncio.create_task(scheduler.call(Frontier.commit))
        while not waits.is_set():
            await asyncio.sleep(0)
        adding = asyncio.create_task(scheduler.add(page(3)))
        scheduler.task_done(request)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not committing.done() and not adding.done()
        disk.set()
        assert await adding is Admission.ADDED
        await committing
        await drain(scheduler, 2)


def test_a_loop_that_ends_without_closing_leaves_a_closed_frontier(tmp_path: Path) -> None:
    async def careless() -> threading.Thread:
        scheduler = await Scheduler(tmp_path).open()
        await scheduler.add(page(1))
        await scheduler.get()
        thread = await scheduler.call(lambda frontier: threading.current_thread())
        asyncio.get_running_loop().call_soon(asyncio.create_task, scheduler.join())
        return thread

    thread = asyncio.run(careless())
    thread.join(PATIENCE)
    assert not thread.is_alive()
    gc.collect()
    with Frontier.open(tmp_path) as frontier:
        assert frontier.summary().queued == 1


@pytest.mark.parametrize("sent", [True, False])
def test_what_was_done_before_a_loop_is_closed_is_done(sent: bool, tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    scheduler = loop.run_until_complete(Scheduler(tmp_path).open())
    loop.run_until_complete(scheduler.add(page(1)))
    request = loop.run_until_complete(scheduler.get())
    thread = loop.run_until_complete(scheduler.call(lambda frontier: threading.current_thread()))
    begun, closed = threading.Event(), threading.Event()

    def wait(frontier: Frontier) -> None:
        begun.set()
        closed.wait(PATIENCE)

    busy = loop.create_task(scheduler.call(wait))
    loop.run_until_complete(asyncio.sleep(0))
    begun.wait(PATIENCE)
    loop.call_soon(scheduler.task_done, request)
    if sent:
        loop.run_until_complete(asyncio.sleep(0))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    closed.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not busy.done()
    busy._log_destroy_pending = False  # type: ignore[attr-defined]  # it is lost with its loop
    with Frontier.open(tmp_path) as frontier:
        assert (frontier.summary().succeeded, frontier.summary().queued) == (1, 0)


CRAWL = """
import asyncio, sys
from budgetfrontier.aio import Scheduler

async def main():
    async with Scheduler(sys.argv[1]) as scheduler:
        await scheduler.add_many(f"https://h{n % 7}.test/{n}" for n in range(3000))
        done = 0
        async for request in scheduler:
            print("fetched", request.uri.url, flush=True)
            scheduler.task_done(request)
            if (done := done + 1) % 100 == 0:
                await scheduler.call(lambda frontier: frontier.commit())
                print("committed", flush=True)

asyncio.run(main())
"""


def test_killed_in_mid_crawl_everything_is_fetched_and_nothing_committed_twice(tmp_path: Path) -> None:
    fetched: list[str] = []
    committed = 0
    with child_process([sys.executable, "-c", CRAWL, str(tmp_path)], stdout=subprocess.PIPE, text=True) as crawl:
        assert crawl.stdout is not None
        for line in crawl.stdout:
            if not line.endswith("\n"):
                break  # cut by the kill
            word, _, url = line.strip().partition(" ")
            if word == "fetched":
                fetched.append(url)
            else:
                committed = len(fetched)
                if committed == 500:
                    crawl.send_signal(signal.SIGKILL)

    @in_loop
    async def again() -> None:
        async with Scheduler(tmp_path) as scheduler:
            await scheduler.add_many(f"https://h{n % 7}.test/{n}" for n in range(3000))
            rest = await drain(scheduler, (await scheduler.stats())["queued"])
            await scheduler.join()
            assert committed >= 500 and not set(fetched[:committed]) & set(rest)
            assert len(set(fetched) | set(rest)) == 3000 and len(rest) == len(set(rest))

    again()


def ends(path: Path) -> list[tuple[RunEnd | None, str]]:
    with Reader(path) as reader:
        return [(run.end, run.reason) for run in reader.runs()]


@in_loop
async def test_the_history_of_runs_has_each_end(tmp_path: Path) -> None:
    async with Scheduler(tmp_path / "frontier"):
        pass
    with pytest.raises(ValueError, match="nonsense"):
        async with Scheduler(tmp_path / "frontier"):
            raise ValueError("nonsense")
    with pytest.raises(asyncio.CancelledError):
        async with Scheduler(tmp_path / "frontier"):
            raise asyncio.CancelledError
    scheduler = await Scheduler(tmp_path / "frontier").open()
    await scheduler.add(page(1))
    await scheduler.call(fail_commit)
    with pytest.raises(StorageFull):
        await scheduler.close()
    assert await asyncio.to_thread(ends, tmp_path / "frontier") == [
        (RunEnd.EXIT, ""),
        (RunEnd.ERROR, "ValueError: nonsense"),
        (RunEnd.EXIT, "cancelled"),
        (RunEnd.DISK_FULL, str(StorageFull())),
    ]
    with Reader(tmp_path / "frontier") as reader:
        assert reader.runs()[0].program.endswith(" (asyncio)")
