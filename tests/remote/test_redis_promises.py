"""The promises of the Redis queues of kumo and qcrawl, kept by a served frontier: rows K16 to K19 and Q21."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier
from budgetfrontier.aio import Scheduler
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.leasing import LeaseQueue, Reason
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.tools.cli import main
from tests.aio.loops import drain, in_loop, page
from tests.aio.places import Place
from tests.remote.served import Served
from tests.support import START, make_settings

A, B, C = (f"https://a.test/{letter}" for letter in "abc")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place("shared", tmp_path, monkeypatch)
    yield place
    place.close()


def urls(queue: LeaseQueue) -> list[str]:
    found = []
    while lease := queue.lease_request():
        found.append(lease.uri.url)
        assert queue.ack_lease(lease)
    return found


def test_a_server_that_is_down_is_an_error_and_not_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K16: an error at the beginning; later too, where kumo returns false, nothing and zero."""
    with Served(tmp_path, make_settings(), monkeypatch) as served:
        queue = LeaseQueue.connect(served.address, retry_for=0.0)
        assert queue.push(A)
        lease = queue.lease_request()
        assert lease is not None
    calls: list[Any] = [
        lambda: queue.push(B), queue.lease_request, queue.pop, lambda: len(queue), lambda: queue.ack_lease(lease),
        lambda: queue.retry_lease(lease), queue.dead_letters, lambda: LeaseQueue.connect(served.address, retry_for=0.0),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ConnectionLost, match="budgetfrontier serve"):
            call()
    queue.close()


def test_priority_then_age_whoever_pushed(served: Served) -> None:
    """K17."""
    with LeaseQueue.connect(served.address) as one, LeaseQueue.connect(served.address) as other:
        for number, priority in enumerate((0, 5, 0, 5, -1)):
            (one, other)[number % 2].push(CrawlUri(page(number), priority=priority))
        assert urls(other) == [page(number) for number in (1, 3, 0, 2, 4)]


def test_retries_wait_until_they_are_due_and_any_process_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    """K18: the length counts what is ready and delayed, not what is leased; nothing has to poll 128 at a time."""
    settings = make_settings(retry={"scope": "uri"}, concurrency=500)
    with (
        Served(tmp_path, settings, monkeypatch, clock) as served,
        LeaseQueue.connect(served.address) as one,
        LeaseQueue.connect(served.address) as other,
        RemoteFrontier(served.address) as frontier,
    ):
        frontier.schedule_many(page(number) for number in range(300))
        for lease in frontier.lease(299):
            assert one.retry_lease(lease, delay=60.0)
        assert (one.state().queued, one.state().delayed, len(other)) == (1, 299, 300)
        ready = other.lease_request()
        assert ready is not None and ready.uri.url == page(299) and len(one) == 299
        assert other.lease_request() is None
        clock.advance(60.0)
        again = frontier.lease(400)
        assert [lease.uri.url for lease in again] == [page(number) for number in range(299)]
        assert {lease.attempt for lease in again} == {2}


def test_dead_letters_are_everybodys(served: Served) -> None:
    """K16: `dead_letters` with their reasons, of all consumers."""
    with LeaseQueue.connect(served.address) as one, LeaseQueue.connect(served.address) as other:
        one.push(A)
        lease = one.lease_request()
        assert lease is not None and one.dead_letter(lease, Reason.FAILED)
        [letter] = other.dead_letters()
        assert (letter.uri.url, letter.reason) == (A, Reason.FAILED)
        assert not other.push(A) and other.is_empty()
        assert other.replay() == 1 and urls(one) == [A]


def test_lists_of_urls_are_imported_into_a_crawl_that_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """K19: what an older queue holds is taken over at once, while consumers work."""
    (tmp_path / "old.txt").write_text("".join(f"{page(number)}\n" for number in range(1000)))
    with (
        Served(tmp_path, make_settings(commit_interval=0.1), monkeypatch) as served,
        LeaseQueue.connect(served.address) as queue,
    ):
        queue.push(page(5000))
        job = str(tmp_path / "jobs" / "DEFAULT")
        assert main(["import", job, str(tmp_path / "old.txt")]) == 0
        assert "added 1,000" in capsys.readouterr().out
        assert len(queue) == 1001


@in_loop
async def test_a_namespace_is_a_crawl_of_its_own(shared: Place) -> None:
    """Q21: what one has seen and queued is nothing to the other."""
    address = shared.serve()
    async with Scheduler.connect(address, crawl="one") as one, Scheduler.connect(address, crawl="two") as two:
        assert await one.add(page(1)) is Admission.ADDED
        assert await two.add(page(1)) is Admission.ADDED
        assert await one.qsize() == 1
        assert await drain(two, 1) == [page(1)]
        await two.join()
        assert not await one.idle()


@in_loop
async def test_duplicates_of_all_processes_are_found_and_never_forgotten(shared: Place) -> None:
    """Q21: `dedupe`, with method, body and the order of arguments as in qcrawl."""
    address = shared.serve()
    async with Scheduler.connect(address) as one, Scheduler.connect(address) as two:
        told = await asyncio.gather(*(each.add("https://a.test/?a=1&b=2") for each in (one, two)))
        assert sorted(told) == [Admission.ADDED, Admission.DUPLICATE]
        assert await two.add("https://a.test/?b=2&a=1") is Admission.DUPLICATE
        assert await two.add(CrawlUri("https://a.test/?b=2&a=1", method="POST", body=b"x")) is Admission.ADDED
        await drain(one, 2)
        assert await one.add("https://a.test/?a=1&b=2") is Admission.DUPLICATE


@in_loop
async def test_the_limit_is_exact_however_many_add_at_once(shared: Place) -> None:
    """Q21: `maxsize`, also with deduplication, where qcrawl's script fails."""
    address = shared.serve()
    async with Scheduler.connect(address) as first:
        schedulers = [Scheduler.connect(address, maxsize=10, when_full="drop", ahead=0) for _ in range(4)]
        for each in schedulers:
            await each.open()
        uris = [[page(number, f"h{place}") for number in range(10)] for place in range(4)]
        told = await asyncio.gather(
            *(each.add(uri) for each, mine in zip(schedulers, uris, strict=True) for uri in mine)
        )
        assert sorted(told) == [Admission.ADDED] * 10 + [Admission.FULL] * 30
        assert await first.qsize() == 10
        for each in schedulers:
            await each.close()


def test_what_is_queued_survives_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K16 and Q21: on disk, leases too; where Redis keeps what it was configured to keep."""
    with (
        Served(tmp_path, make_settings(), monkeypatch, ManualClock(START)) as served,
        LeaseQueue.connect(served.address, keep_leases=True) as queue,
    ):
        queue.push(A)
        queue.push(B)
        assert queue.lease_request() is not None
    with Frontier.open(tmp_path / "jobs/DEFAULT/frontier", clock=ManualClock(START), keep_leases=True) as frontier:
        assert (frontier.summary().queued, frontier.summary().in_process, frontier.summary().seen) == (2, 1, 2)
