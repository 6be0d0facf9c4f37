"""A frontier that processes share: what dies, what is leased ahead, and what is everybody's."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from budgetfrontier import Admission, CrawlUri, FrontierClosed, Lease
from budgetfrontier.aio import Scheduler
from budgetfrontier.aio import scheduler as scheduler_module
from budgetfrontier.aio import shared_frontier as aio_shared
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.remote import RemoteFrontier
from tests.aio.loops import drain, in_loop, page, waiting
from tests.aio.places import Place
from tests.aio.worker import main
from tests.forked import ForkedProcess
from tests.remote.test_processes import Server, lines, serving
from tests.support import PATIENCE, make_settings, memory, until

SEEDS = [f"https://host{number % 10}.test/{number}" for number in range(60)]
ALL = {f"{seed}{path}" for seed in SEEDS for path in ("", "/a", "/b", "/a/a", "/a/b", "/b/a", "/b/b")}


def work(address: str, file: str) -> None:
    asyncio.run(main(address, file))


def start(server: Server, name: str) -> ForkedProcess:
    with (server.folder / f"{name}.log").open("ab") as log:
        return ForkedProcess(work, server.address, str(server.folder / name), log=log)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place("ahead", tmp_path, monkeypatch)


def test_four_processes_share_a_crawl_and_two_are_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as server, RemoteFrontier(server.address) as frontier:
        frontier.schedule_many(SEEDS)
        processes = {name: start(server, name) for name in "abcd"}
        for name, count in (("a", 5), ("b", 20)):
            until(lambda name=name, count=count: len(lines(server, name)[1]) >= count)  # type: ignore[misc]
            processes[name].kill()
            processes[name].wait()
        assert [processes[name].wait(PATIENCE) for name in "cd"] == [0, 0], [
            (tmp_path / f"{name}.log").read_text() for name in "cd"
        ]
        total = frontier.summary()
    was_out: set[str] = set()
    for name in "ab":
        leased, done = lines(server, name)
        was_out |= set(leased) - set(done)
    leased_by_all = Counter(url for name in "abcd" for url in lines(server, name)[0])
    assert set(leased_by_all) == ALL, "every URI was handed out"
    assert {url for url, count in leased_by_all.items() if count > 1} <= was_out, "none twice but what was out"
    assert (total.succeeded, total.expenditure, total.in_process) == (len(ALL), len(ALL), 0)


def test_tasks_go_on_when_the_server_is_killed_or_stopped_and_started_again(tmp_path: Path) -> None:
    with serving(tmp_path) as server:

        async def crawl() -> list[str]:
            done: list[str] = []

            async def work(scheduler: Scheduler) -> None:
                async for request in scheduler:
                    done.append(request.uri.url)
                    scheduler.task_done(request)

            async with Scheduler.connect(server.address, ttl=8.0) as scheduler:  # a lease may be lost with its reply
                workers = [asyncio.create_task(work(scheduler)) for _ in range(4)]
                for number, end in enumerate((server.kill, server.stop)):
                    assert await scheduler.add(page(number)) is Admission.ADDED
                    await asyncio.to_thread(end)
                    (server.folder / "s").unlink(missing_ok=True)
                    await asyncio.to_thread(server.start)
                assert await scheduler.add(page(2)) is Admission.ADDED
                await scheduler.join()
                await scheduler.close()
                await asyncio.gather(*workers)
                return done

        assert set(asyncio.run(crawl())) == {page(0), page(1), page(2)}


def test_a_server_that_does_not_come_back_is_an_error_for_all(tmp_path: Path) -> None:
    with serving(tmp_path) as server:

        async def crawl() -> None:
            scheduler = await Scheduler.connect(server.address, retry_for=0.0, grace=0.0).open()
            consumer = await waiting(scheduler)
            await scheduler.add_many([page(1), page(2)])
            request = await consumer
            await scheduler.get()
            consumer = await waiting(scheduler)
            server.kill()
            scheduler.task_done(request)
            for call in (consumer, scheduler.add(page(3)), scheduler.join(), scheduler.close()):
                with pytest.raises(ConnectionLost):
                    await call

        asyncio.run(crawl())
        (server.folder / "s").unlink(missing_ok=True)
        server.start()
    with pytest.raises(ConnectionLost):
        asyncio.run(Scheduler.connect(server.address, retry_for=0.0).open())


@in_loop
async def test_closing_gives_back_what_this_process_holds_and_nothing_else(shared: Place) -> None:
    address = shared.serve(make_settings())
    async with Scheduler.connect(address) as one, Scheduler.connect(address, ahead=0, grace=0.0) as other:
        await one.add_many(page(1, host) for host in "abcde")
        kept = await other.get()
        request = await one.get()
        while (await other.stats())["pending"] < 5:  # what the other one has leased ahead is out for everybody
            await asyncio.sleep(0.01)
        stats = await one.stats()
        assert (stats["queued"], stats["pending"]) == (3, 2), "what it has leased ahead is queued for itself"
        one.task_done(request)
        await one.close()
        assert (await other.stats())["pending"] == 1 and (await other.stats())["queued"] == 3
        requests = [await other.get() for _ in range(3)]
        assert [request.delivery for request in requests] == [1, 1, 1]
        for request in (kept, *requests):
            other.task_done(request)
        await other.join()
    shared.close()


@in_loop
async def test_what_nobody_takes_is_given_back_for_others(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "AHEAD_FOR", 0.05)
    address = shared.serve(make_settings())
    async with Scheduler.connect(address) as busy, Scheduler.connect(address, ahead=0) as other:
        await other.add_many(page(1, host) for host in "abcd")
        request = await busy.get()
        assert len(await drain(other, 3)) == 3
        busy.task_done(request)
        await other.join()
        await asyncio.gather(busy.join(), other.join())
    shared.close()


@in_loop
async def test_room_and_joining_are_everybodys(shared: Place) -> None:
    address = shared.serve(make_settings())
    async with (
        Scheduler.connect(address, ahead=0, maxsize=2) as one,
        Scheduler.connect(address, ahead=0, maxsize=2) as other,
    ):
        assert await one.add(page(1)) is Admission.ADDED
        assert await other.add(page(2, "b")) is Admission.ADDED
        adding = asyncio.create_task(one.add(page(3, "c")))
        assert (await other.add_many([page(4)])).full == 1
        joining = asyncio.create_task(one.join())
        request = await other.get()  # which makes room in the other process
        assert await adding is Admission.ADDED
        assert await one.qsize() == await other.qsize() == 2
        assert not joining.done() and not await one.idle()
        other.task_done(request)
        await drain(other, 2)
        await joining
    shared.close()


@in_loop
async def test_a_uri_that_no_message_can_hold_is_invalid(shared: Place) -> None:
    async with shared() as scheduler:
        strange = CrawlUri(page(1), priority="high")  # type: ignore[arg-type]
        assert await scheduler.add(strange) is Admission.INVALID
        assert await scheduler.add(page(1) + "\ud800") is Admission.INVALID
        assert await scheduler.add(page(1)) is Admission.ADDED
    shared.close()


def test_a_loop_that_ends_without_closing_gives_back_what_it_holds(shared: Place) -> None:
    address = shared.serve(make_settings())

    async def careless() -> None:
        scheduler = await Scheduler.connect(address).open()
        await scheduler.add_many(page(1, host) for host in "abc")
        scheduler.task_done(await scheduler.get())

    asyncio.run(careless())
    with RemoteFrontier(address) as frontier:
        until(lambda: frontier.summary().succeeded == 1 and frontier.summary().in_process == 0)
    shared.close()


@pytest.mark.parametrize("ttl", [20.0, None])
def test_a_lease_that_has_waited_for_too_long_is_not_handed_out(
    monkeypatch: pytest.MonkeyPatch, ttl: float | None
) -> None:
    """The worker may have waited for the server, and the URI may be with somebody else soon."""
    now, arrived = 0.0, threading.Event()
    monkeypatch.setattr(aio_shared, "monotonic", lambda: now)
    frontier = memory()
    frontier.schedule_many(["http://a.test/", "http://b.test/"])
    leases = iter([[lease] for lease in frontier.lease(2)])
    lasts = ttl or frontier.settings.frontier.lease_ttl
    remote: Any = SimpleNamespace(
        settings=frontier.settings,
        lease=lambda count, *, ttl, wait: next(leases),
        retry_for=1.0,
        interrupt=lambda: None,
        close=lambda: None,
    )
    taken: list[Lease] = []
    with aio_shared.SharedFrontier(remote, ttl, arrived.set) as source:
        source.want(1)
        for seconds, expected in (0.76 * lasts, 0), (0.74 * lasts, 1):
            assert arrived.wait(PATIENCE)
            arrived.clear()
            now += seconds
            source.take(taken)
            assert len(taken) == expected


def test_wrong_arguments(tmp_path: Path) -> None:
    for wrong in ({"ahead": -1}, {"maxsize": -1}, {"ttl": -1.0}, {"when_full": "block"}):
        with pytest.raises(ValueError):
            Scheduler.connect("127.0.0.1:1", **wrong)

    async def never_opened() -> None:
        scheduler = Scheduler.connect("127.0.0.1:1")
        with pytest.raises(FrontierClosed):
            await scheduler.add(page(1))
        await scheduler.close()

    asyncio.run(never_opened())
    assert not list(tmp_path.iterdir())


def test_closing_gives_up_a_server_that_hangs() -> None:
    source = aio_shared.SharedFrontier(cast("Any", SimpleNamespace(retry_for=30.0, timeout=None)), None, lambda: None)
    source.hurry()
    assert vars(source.frontier) == {"retry_for": aio_shared.LEAVING, "timeout": aio_shared.LEAVING}
