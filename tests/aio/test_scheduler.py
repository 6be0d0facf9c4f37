"""What goes in comes out: admission, order, delivery, outcomes, joining, back pressure."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, FrontierError, Outcome, Settings, WrongThread
from budgetfrontier.aio import Scheduler
from budgetfrontier.aio import scheduler as aio_scheduler
from budgetfrontier.clock import ManualClock
from tests.aio.loops import drain, in_loop, page, waiting
from tests.aio.places import Place
from tests.support import START, logged, make_settings

ADDED, DUPLICATE, FULL = Admission.ADDED, Admission.DUPLICATE, Admission.FULL


@in_loop
async def test_a_request_is_added_got_and_done(place: Place) -> None:
    async with place() as scheduler:
        assert await scheduler.add(page(1)) is ADDED
        request = await scheduler.get()
        assert (request.uri.url, request.delivery) == (page(1), 1)
        assert not await scheduler.idle()
        scheduler.task_done(request)
        await scheduler.join()
        assert await scheduler.idle()


@in_loop
async def test_add_says_what_became_of_a_uri(place: Place) -> None:
    async with place() as scheduler:
        assert await scheduler.add("https://a.test/?a=1&b=2") is ADDED
        assert await scheduler.add("https://a.test/?b=2&a=1") is DUPLICATE
        assert await scheduler.add(CrawlUri("https://a.test/?a=1&b=2", method="POST", body=b"x")) is ADDED
        assert await scheduler.add(CrawlUri("https://a.test/?a=1&b=2", force=True)) is ADDED
        bad = ["", "not a url", "ftp://a.test/"]
        assert [await scheduler.add(uri) for uri in bad] == [Admission.INVALID] * 3
        for nonsense in (None, 5):
            with pytest.raises(TypeError, match="a str or a CrawlUri"):
                await scheduler.add(nonsense)  # type: ignore[arg-type]
        assert await scheduler.qsize() == 3


@in_loop
async def test_add_many_counts_and_takes_what_never_ends(place: Place) -> None:
    taken = 0

    async def stop_soon(scheduler: Scheduler) -> None:
        nonlocal taken
        async for request in scheduler:
            scheduler.task_done(request)
            taken += 1
            if taken == 50:
                await scheduler.close()

    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield page(number)

    async with place() as scheduler:
        tally = await scheduler.add_many([page(1), page(1), "nonsense"])
        assert (tally.added, tally.duplicate, tally.reasons) == (1, 1, {"scheme": 1})
        with pytest.raises(TypeError):
            await scheduler.add_many(page(1))
        stopper = asyncio.create_task(stop_soon(scheduler))
        with pytest.raises(FrontierError):
            await scheduler.add_many(endless())
        await stopper


@pytest.mark.parametrize("where", ["memory", "disk"])
@in_loop
async def test_higher_priority_first_and_the_older_of_equals(where: str, tmp_path: Path) -> None:
    async with Scheduler(tmp_path / "frontier" if where == "disk" else ":memory:") as scheduler:
        for number, priority in enumerate([-10, 0, 100, 0, 100]):
            await scheduler.add(CrawlUri(page(number), priority=priority))
        assert await drain(scheduler, 5) == [page(n) for n in (2, 4, 1, 3, 0)]


@in_loop
async def test_order_and_what_was_seen_survive(tmp_path: Path) -> None:
    async with Scheduler(tmp_path) as scheduler:
        for number in range(6):
            await scheduler.add(CrawlUri(page(number), priority=number % 2))
        assert await drain(scheduler, 1) == [page(1)]
    async with Scheduler(tmp_path) as scheduler:
        assert await scheduler.add(page(1)) is DUPLICATE
        await scheduler.add(CrawlUri(page(6), priority=1))
        assert await drain(scheduler, 6) == [page(n) for n in (3, 5, 6, 0, 2, 4)]


@in_loop
async def test_who_waits_longest_is_served_first(exact: Place) -> None:
    async with exact(grace=0) as scheduler:
        waiters = [await waiting(scheduler) for _ in range(3)]
        assert (await scheduler.stats())["waiting_consumers"] == 3
        await scheduler.add_many([page(1), page(2)])
        assert [(await waiter).uri.url for waiter in waiters[:2]] == [page(1), page(2)]
        assert not waiters[2].done()
        await scheduler.add(page(3))
        assert (await waiters[2]).uri.url == page(3)


@in_loop
async def test_hosts_take_turns(place: Place) -> None:
    settings = Settings.from_dict({"frontier": {"hold_queues": False, "politeness": {"min_delay": 0}}})
    async with place(settings) as scheduler:
        await scheduler.add_many([*(page(n) for n in range(50)), page(1, "b"), page(2, "b")])
        assert {url[8] for url in await drain(scheduler, 3)} == {"a", "b"}


@in_loop
async def test_a_waiter_that_gives_up_takes_nothing(place: Place) -> None:
    async with place() as scheduler:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(scheduler.get(), 0.001)
        await scheduler.add(page(1))
        assert await drain(scheduler, 1) == [page(1)]
        assert (await scheduler.stats())["waiting_consumers"] == 0


@in_loop
async def test_a_waiter_cancelled_after_delivery_gives_the_request_back() -> None:
    async with Scheduler(":memory:") as scheduler:
        waiter = await waiting(scheduler)
        await scheduler.add(page(1))  # answered in the same breath in which the request goes to the waiter
        assert "1 out, 0 waiting" in repr(scheduler) and not waiter.done()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        request = await scheduler.get()
        assert (request.uri.url, request.delivery) == (page(1), 1)
        scheduler.task_done(request)
        total = await scheduler.call(lambda frontier: frontier.summary())
        assert (total.expenditure, total.succeeded) == (1, 1)


@in_loop
async def test_a_request_under_way_to_one_that_gave_up_goes_to_the_next(exact: Place) -> None:
    async with exact(grace=0) as scheduler:
        first, second = await waiting(scheduler), await waiting(scheduler)
        await scheduler.qsize()  # both are known to wait
        adding = asyncio.create_task(scheduler.add(page(1)))
        await asyncio.sleep(0)
        first.cancel()
        await adding
        assert (await second).uri.url == page(1)


@in_loop
async def test_impatient_consumers_lose_nothing(place: Place) -> None:
    """Consumers that are cancelled at any time, before, during and after delivery: each URI is done exactly once."""
    chance = random.Random(7)
    done: Counter[str] = Counter()

    async def consume(scheduler: Scheduler) -> None:
        while True:
            try:
                async with asyncio.timeout(chance.choice((0.0, 0.0001, 0.001, 1.0))):
                    request = await scheduler.get()
            except TimeoutError:
                continue
            done[request.uri.url] += 1
            scheduler.task_done(request)

    urls = [page(number, host) for number in range(60) for host in "abcdefghij"]
    async with place() as scheduler:
        consumers = [asyncio.create_task(consume(scheduler)) for _ in range(40)]
        await asyncio.gather(*(scheduler.add(url) for url in urls))
        await scheduler.join()
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
        assert done == Counter(urls)
        await scheduler.add(page(1000))  # and nobody who has gone is still counted as waiting
        assert await drain(scheduler, 1) == [page(1000)]


@in_loop
async def test_task_done_once_for_each_get(place: Place) -> None:
    async with place() as scheduler, place() as other:
        await scheduler.add_many([page(1), page(2)])
        await other.add(page(1, "b"))
        first, second, foreign = await scheduler.get(), await scheduler.get(), await other.get()
        scheduler.task_done()  # the one that this task got first
        with pytest.raises(ValueError, match="called too many times"):
            scheduler.task_done(first)
        scheduler.task_done(second)
        with pytest.raises(ValueError, match="called too many times"):
            scheduler.task_done()
        other.task_done(foreign)
        await scheduler.add(page(3))
        elsewhere = await asyncio.create_task(scheduler.get())
        with pytest.raises(ValueError, match="called too many times"):
            scheduler.task_done()  # another task has got it
        scheduler.task_done(elsewhere)


@pytest.mark.parametrize(
    "how",
    [
        {"fetch_seconds": -1},
        {"delay": float("nan")},
        {"outcome": "MAYBE"},
        {"discovered": page(2)},
        {"discovered": None},
        {"retire_queue": "False"},
        {"retire_queue": None},
        {"reason": 5},
        {"reason": None},
        {"size": None},
        {"status": ""},
        {"novel": 1},
        {"address": None},
        {"address": "a.test"},
    ],
)
@in_loop
async def test_a_wrong_argument_leaves_the_request_out(place: Place, how: dict[str, object]) -> None:
    async with place() as scheduler:
        await scheduler.add(page(1))
        request = await scheduler.get()
        with pytest.raises(
            ValueError if {*how} & {"fetch_seconds", "delay", "outcome"} or how.get("address") else TypeError
        ):
            scheduler.task_done(request, **how)  # type: ignore[arg-type]
        scheduler.task_done(request)
        await scheduler.join()


@in_loop
async def test_outcomes_are_the_engines(place: Place) -> None:
    settings = make_settings(error_penalty_amount=10, retry={"max_retries": 1, "delay": 0})
    async with place(settings) as scheduler:
        await scheduler.add_many(page(number) for number in range(5))
        outcomes = [Outcome.SUCCESS, Outcome.FAILURE, Outcome.DISREGARDED, Outcome.DEAD, Outcome.RETRY, Outcome.RETRY]
        for outcome in outcomes:
            scheduler.task_done(await scheduler.get(), outcome, reason="said so")
        await scheduler.join()
        total = await scheduler.call(lambda frontier: frontier.summary())
        assert (total.succeeded, total.failed, total.disregarded, total.retried) == (1, 1, 1, 1)
        assert total.expenditure == 1 + 11 + 0 + 1 + 2
        letters = await scheduler.call(lambda frontier: frontier.dead_letters())
        assert [(letter.uri.url, letter.attempts) for letter in letters] == [(page(3), 0), (page(4), 2)]
        assert (await scheduler.stats())["dead"] == 2


@in_loop
async def test_what_was_found_comes_with_what_it_was_found_on(place: Place) -> None:
    async with place(grace=0) as scheduler:
        await scheduler.add(page(1))
        request = await scheduler.get()
        scheduler.task_done(request, fetch_seconds=0.1, discovered=(page(n) for n in (1, 2)))
        found = await scheduler.get()
        assert (found.uri.url, found.uri.via, found.uri.hops) == (page(2), page(1), "L")


@in_loop
async def test_sleepers_wake_by_themselves(place: Place) -> None:
    """A host that rests, a retry and a URI for later: waiters get them when it is time, with nobody else calling."""
    settings = Settings.from_dict({
        "frontier": {"politeness": {"min_delay": "50ms"}, "retry": {"delay": "50ms"}, "commit_interval": "1h"}
    })  # fmt: skip
    async with place(settings) as scheduler:
        await scheduler.add_many([page(1), page(2), CrawlUri(page(3, "b"), not_before=time.time() + 0.05)])
        assert await drain(scheduler, 3) != []
        await scheduler.add(page(4, "c"))
        scheduler.task_done(await scheduler.get(), Outcome.RETRY)
        assert await drain(scheduler, 1) == [page(4, "c")]
        await scheduler.join()


@in_loop
async def test_a_host_that_is_overloaded_rests_longer_each_time(exact: Place) -> None:
    clock, rests = ManualClock(START), []
    async with exact(clock=clock) as scheduler:

        async def advance(seconds: float) -> None:
            await scheduler.call(lambda frontier: clock.advance(seconds))

        await scheduler.add(page(1))
        for status, quiet in ((503, 0.0), (429, 0.0), (503, 1800.0)):
            waiter = await waiting(scheduler)
            await advance(quiet)
            scheduler.task_done(await waiter, Outcome.RETRY, status=status)
            rests.append(await scheduler.call(lambda frontier: frontier.next_ready_in() or 0.0))
            await advance(rests[-1])
    assert rests == [60.0, 120.0, 60.0]


@in_loop
async def test_a_request_that_takes_too_long_is_handed_out_again(
    exact: Place, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(START)
    async with exact(ttl=60.0, clock=clock) as scheduler:
        await scheduler.add(page(1))
        slow, waiter = await scheduler.get(), await waiting(scheduler)
        await scheduler.call(lambda frontier: clock.advance(61.0))
        quick = await waiter
        assert (quick.uri.url, quick.delivery) == (page(1), 2)
        scheduler.task_done(slow)  # changes nothing
        await scheduler.call(lambda frontier: frontier.renew(quick, 60.0))
        assert "has ended" in caplog.text and await scheduler.idle() is False
        scheduler.task_done(quick)
        await scheduler.join()


@in_loop
async def test_join_waits_for_what_was_added_meanwhile(place: Place) -> None:
    async with place() as scheduler:
        await scheduler.join()  # nothing was ever added
        await scheduler.add(page(1))
        joins = [asyncio.create_task(scheduler.join()) for _ in range(2)]
        request = await scheduler.get()
        await scheduler.add(page(2))
        scheduler.task_done(request)
        request = await scheduler.get()
        assert not any(join.done() for join in joins)
        scheduler.task_done(request)
        await asyncio.gather(*joins)
        await scheduler.add(page(3))  # idle, and running again
        assert not await scheduler.idle() and await drain(scheduler, 1) == [page(3)]


@in_loop
async def test_join_does_not_wait_for_retired_queues(place: Place) -> None:
    async with place(make_settings(queue_total_budget=1), grace=0) as scheduler:
        await scheduler.add_many(page(number) for number in range(5))
        await drain(scheduler, 2)
        await scheduler.join()
        waiter = await waiting(scheduler)
        await scheduler.call(lambda frontier: frontier.adjust(queue_total_budget=100))
        assert (await waiter).uri.url == page(2)


@in_loop
async def test_a_full_queue_makes_who_adds_wait(exact: Place) -> None:
    async with exact(maxsize=2) as scheduler:
        await scheduler.add_many([page(1), page(2)])
        adding = [asyncio.create_task(scheduler.add(page(number))) for number in (3, 4)]
        tally = await scheduler.add_many([page(5)])
        assert (tally.full, tally.reasons) == (1, {"maxsize": 1})  # told, never waits
        assert await scheduler.qsize() == 2
        request = await scheduler.get()  # what is out makes room: one worker that adds what it finds is not stuck
        assert await adding[0] is ADDED
        assert not adding[1].done()
        adding[1].cancel()
        scheduler.task_done(request)
        assert await drain(scheduler, 2) == [page(2), page(3)]
        await scheduler.join()  # whoever gave up was not added


@in_loop
async def test_those_who_give_up_on_a_full_queue_are_forgotten(exact: Place) -> None:
    class Url(str):
        """Text that a weak reference may refer to."""

    given: list[weakref.ref[Url]] = []
    async with exact(maxsize=1) as scheduler:
        await scheduler.add(page(0))
        for number in range(1, 50):
            url = Url(page(number))
            given.append(weakref.ref(url))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(scheduler.add(url), 0.0005)
        del url
        while sum(url() is not None for url in given) > 1:
            await scheduler.qsize()
            gc.collect()
        assert await drain(scheduler, 1) == [page(0)]
        await scheduler.join()


@in_loop
async def test_a_full_queue_may_drop_and_says_so(exact: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with exact(maxsize=1, when_full="drop") as scheduler:
        await scheduler.add(page(1))
        before = await scheduler.stats()
        with caplog.at_level(logging.WARNING, "budgetfrontier.aio"):
            assert await scheduler.add(page(2)) is FULL
        assert logged(caplog, "budgetfrontier.aio") == [f"queue full, dropping request: {page(2)}"]
        assert await scheduler.stats() == before
        assert await drain(scheduler, 1) == [page(1)]
        assert await scheduler.add(page(2)) is ADDED  # it left no trace
        assert await drain(scheduler, 1) == [page(2)]
        await scheduler.join()


@in_loop
async def test_one_full_host_holds_up_no_other(place: Place) -> None:
    async with place(make_settings(max_queue_size=1)) as scheduler:
        await scheduler.add(page(1))
        adding = asyncio.create_task(scheduler.add(page(2)))
        assert await scheduler.add(page(1, "b")) is ADDED
        requests = [await scheduler.get(), await scheduler.get()]
        assert sorted(request.queue for request in requests) == ["a.test", "b.test"] and not adding.done()
        for request in requests:
            scheduler.task_done(request)
        assert await adding is ADDED


@in_loop
async def test_a_call_that_waits_for_room_is_counted_once(place: Place) -> None:
    async with place(make_settings(max_queued=1)) as scheduler:
        await scheduler.add(page(0))
        adding = [asyncio.create_task(scheduler.add(page(number))) for number in (1, 2, 3)]
        await scheduler.call(lambda frontier: None)
        await drain(scheduler, 4)
        assert [await task for task in adding] == [ADDED] * 3
        totals = await scheduler.call(lambda frontier: frontier.summary())
        assert (totals.scheduled, totals.full, totals.full_reasons) == (4, 3, {"max_queued": 3})


@in_loop
async def test_what_is_queued_can_be_made_more_urgent(place: Place) -> None:
    async with place(make_settings(keep_urls=True, update_priority=True)) as scheduler:
        await scheduler.add_many([page(1), page(2), CrawlUri(page(3), payload=b"first")])
        assert await scheduler.add(CrawlUri(page(3), priority=9, payload=b"second")) is DUPLICATE
        assert (
            await scheduler.add_many([CrawlUri(page(2), priority=1), CrawlUri(page(3), priority=-1)])
        ).duplicate == 2
        request = await scheduler.get()
        assert (request.uri.url, request.uri.priority, request.uri.payload) == (page(3), 9, b"first")
        scheduler.task_done(request)
        assert await drain(scheduler, 2) == [page(2), page(1)]
        await scheduler.join()


@in_loop
async def test_call_takes_a_function_that_is_not_async(place: Place) -> None:
    async def summary(frontier: Frontier) -> object:
        return frontier.summary()

    async with place() as scheduler:
        for wrong in (5, summary):
            with pytest.raises(TypeError, match="call takes a function that takes the frontier, without `async`"):
                await scheduler.call(wrong)  # type: ignore[arg-type,unused-coroutine]


def test_wrong_arguments() -> None:
    wrong: list[Callable[[], Scheduler]] = [
        lambda: Scheduler(":memory:", maxsize=-1),
        lambda: Scheduler(":memory:", when_full="block"),  # type: ignore[arg-type]
        lambda: Scheduler(":memory:", ttl=-1),
    ]
    for make in wrong:
        with pytest.raises(ValueError):
            make()
    with pytest.raises(TypeError):
        Scheduler(None)  # type: ignore[arg-type]


@in_loop
async def test_pending_is_what_was_got_and_is_not_done(exact: Place) -> None:
    async with exact() as scheduler:
        await scheduler.add_many([page(1), page(2), page(3)])
        seen = []
        for _ in range(2):
            await scheduler.get()
            stats = await scheduler.stats()
            seen.append((stats["queued"], stats["pending"]))
        scheduler.task_done()
        stats = await scheduler.stats()
        assert [*seen, (stats["queued"], stats["pending"])] == [(2, 1), (1, 2), (1, 1)]
        scheduler.task_done()


@in_loop
async def test_what_many_tasks_ask_in_one_turn_is_answered_with_one_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Scheduler(":memory:") as scheduler:
        wake_ups = 0
        loop = asyncio.get_running_loop()
        wake_up = loop.call_soon_threadsafe

        def counted(*args: Any) -> Any:
            nonlocal wake_ups
            wake_ups += 1
            return wake_up(*args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        getting = asyncio.gather(*(scheduler.get() for _ in range(100)))
        told = await asyncio.gather(*(scheduler.add(page(n, f"h{n % 20}")) for n in range(100)))
        requests = await getting
        assert told == [ADDED] * 100 and len({request.id for request in requests}) == 100
        assert wake_ups == 1
        for request in requests:
            scheduler.task_done(request)
        await scheduler.join()
        assert wake_ups == 2


@in_loop
async def test_one_request_that_cannot_be_ended_harms_no_other_of_its_turn(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    class Unspeakable(str):
        def __str__(self) -> str:
            raise ArithmeticError

    async with place(grace=0) as scheduler:
        await scheduler.add_many([page(1), page(2), page(3)])
        requests = [await scheduler.get() for _ in range(3)]
        scheduler.task_done(requests[0])
        scheduler.task_done(requests[1], Outcome.DEAD, reason=Unspeakable("why"))
        scheduler.task_done(requests[2], Outcome.DEAD, reason="why")
        total = await scheduler.call(lambda frontier: frontier.summary())
        assert (total.succeeded, total.in_process, total.dead) == (1, 1, 1)
        assert "the crawl goes on" in caplog.text and "has ended" not in caplog.text


@in_loop
async def test_requests_that_took_too_long_are_logged_and_the_others_of_their_turn_end(
    place: Place,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(START)
    async with place(ttl=60.0, clock=clock, grace=0) as scheduler:
        await scheduler.add_many([page(1), page(2), page(3)])
        requests = [await scheduler.get() for _ in range(3)]

        def let_expire(frontier: Frontier) -> None:
            frontier.renew(requests[1], 1000.0)
            clock.advance(61.0)

        await scheduler.call(let_expire)
        for request in requests:
            scheduler.task_done(request)
        while (await scheduler.stats())["queued"] != 2:  # those on their way to be leased ahead are neither
            await asyncio.sleep(0.01)
        assert [line.partition(";")[0] for line in logged(caplog, "budgetfrontier.aio")] == [
            f"lease {request.id} of {request.uri.url} has ended" for request in (requests[0], requests[2])
        ]


@in_loop
async def test_the_sizes_of_responses_reach_the_totals(place: Place) -> None:
    async with place(make_settings(polite=False)) as scheduler:
        await scheduler.add_many([page(1), page(2)])
        for size in (70, 5):
            scheduler.task_done(await scheduler.get(), size=size)
        await scheduler.join()
        assert await scheduler.call(lambda frontier: frontier.summary().bytes) == 75


@in_loop
async def test_a_call_in_another_loop_is_refused_and_has_no_effect(place: Place) -> None:
    async with place() as scheduler:
        await scheduler.add(page(1))
        calls: list[Callable[[], Any]] = [
            lambda: scheduler.add(page(2)),
            lambda: scheduler.add_many([page(3)]),
            scheduler.get,
            scheduler.stats,
            scheduler.qsize,
            scheduler.join,
            scheduler.close,
        ]

        async def refused() -> None:
            for call in calls:
                with pytest.raises(WrongThread, match="the event loop in which it was opened"):
                    await call()

        await asyncio.to_thread(asyncio.run, refused())
        assert await scheduler.qsize() == 1
        scheduler.task_done(await scheduler.get())


@pytest.mark.parametrize("named", [True, False])
@in_loop
async def test_a_request_that_took_too_long_is_reported_after_another_task_was_done_with_its_uri(
    exact: Place, caplog: pytest.LogCaptureFixture, named: bool
) -> None:
    clock = ManualClock(START)
    async with exact(ttl=60.0, clock=clock) as scheduler:
        await scheduler.add(page(1))
        slow = await scheduler.get()

        async def be_quick() -> None:
            scheduler.task_done(await scheduler.get())

        quick = asyncio.create_task(be_quick())
        await asyncio.sleep(0)
        await scheduler.call(lambda frontier: clock.advance(61.0))
        await quick
        await scheduler.join()
        scheduler.task_done(slow if named else None)  # changes nothing
        with pytest.raises(ValueError, match="called too many times"):
            scheduler.task_done(slow)
        total = await scheduler.call(lambda frontier: frontier.summary())
        assert "has ended" in caplog.text and (total.succeeded, total.expenditure) == (1, 1)


@in_loop
async def test_requests_that_nobody_reports_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_scheduler, "MOST_OUT", 10)
    clock = ManualClock(START)
    async with Scheduler(":memory:", {"frontier": {"max_deliveries": 1}}, ttl=1.0, clock=clock, grace=0.0) as scheduler:
        for number in range(50):
            await scheduler.add(page(number, f"host{number}"))
            request = await scheduler.get()
            await scheduler.call(lambda frontier: clock.advance(10_000.0))
        assert len(scheduler._handed_out) < 25 and request.id in scheduler._handed_out
