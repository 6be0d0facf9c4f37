"""Connections that are lost in mid-call: nothing is applied twice, and no lease is nobody's."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Finish, FrontierClosed, LeaseExpired, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core import protocol
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier
from budgetfrontier.remote.calls import Rpc
from budgetfrontier.remote.link import Link
from tests.remote.proxy import Proxy
from tests.remote.served import Served
from tests.support import PATIENCE, pages, until


@pytest.fixture
def proxy(tmp_path: Path, served: Served) -> Iterator[Proxy]:
    with Proxy(tmp_path, served.address) as proxy:
        yield proxy


@pytest.fixture
def direct(served: Served) -> Iterator[RemoteFrontier]:
    with RemoteFrontier(served.address) as direct:
        yield direct


def lose_the_reply(proxy: Proxy, call: Callable[[], Any], applied: Callable[[], object]) -> Any:
    """Make a call whose reply is lost with its connection; return what the call returns at last."""
    results: list[Any] = []

    def make() -> None:
        try:
            results.append(call())
        except Exception as e:
            results.append(e)

    proxy.deaf.set()
    thread = threading.Thread(target=make)
    thread.start()
    until(applied)
    assert proxy.lost.wait(PATIENCE)
    proxy.deaf.clear()
    proxy.cut()
    thread.join(PATIENCE)
    proxy.lost.clear()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def test_a_repeated_call_is_answered_as_it_was_applied(
    proxy: Proxy, direct: RemoteFrontier, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "budgetfrontier.client")
    with RemoteFrontier(proxy.address) as remote:
        forced = [CrawlUri(url, force=True) for url in pages("ABC", 2)]
        tally = lose_the_reply(proxy, lambda: remote.schedule_many(forced), lambda: direct.summary().queued)
        assert tally.added == 6 and direct.summary().scheduled == 6
        waited, there = [record.getMessage() for record in caplog.records]
        assert "Waiting for the server at" in waited and there.endswith("is there")

        leases = lose_the_reply(proxy, lambda: remote.lease(3), lambda: direct.summary().in_process)
        assert len(leases) == 3 and direct.summary().in_process == 3

        finishes = [Finish(lease, Outcome.RETRY) for lease in leases]
        assert lose_the_reply(proxy, lambda: remote.finish_many(finishes), lambda: direct.summary().retried) == []
        assert direct.summary().retried == 3 and direct.summary().expenditure == 3

        clock.advance(86_400)
        (one,) = remote.lease()
        lose_the_reply(proxy, lambda: remote.finish(one), lambda: direct.summary().succeeded)
        with pytest.raises(LeaseExpired):
            remote.finish(one)
        assert direct.summary().succeeded == 1


def test_a_batch_of_many_calls_survives_a_lost_connection_in_order(proxy: Proxy, direct: RemoteFrontier) -> None:
    urls = [f"https://a.test/{number}" for number in range(20_000)]
    with RemoteFrontier(proxy.address) as remote:
        tally = lose_the_reply(proxy, lambda: remote.schedule_many(urls), lambda: direct.summary().queued)
        assert tally.added == 20_000 and direct.summary().duplicates == 0
    found = []
    for _ in range(5):
        (lease,) = direct.lease()
        found.append(lease.uri.url)
        direct.finish(lease)
    assert found == urls[:5]
    assert direct.queue("a.test").last_enqueued == urls[-1]  # type: ignore[union-attr]


def test_leases_whose_reply_nobody_waits_for_are_given_back(proxy: Proxy, direct: RemoteFrontier) -> None:
    direct.schedule_many(pages("ABC", 1))
    with RemoteFrontier(proxy.address, retry_for=0.0) as remote:
        with pytest.raises(ConnectionLost):
            lose_the_reply(proxy, lambda: remote.lease(3), lambda: direct.summary().in_process)
        assert direct.summary().in_process == 3
        until(lambda: _answers(remote))
        assert remote.schedule("https://d.test/") is Admission.ADDED
        assert direct.summary().in_process == 0 and direct.summary().expired == 0


def test_a_closing_client_gives_back_the_leases_of_a_reply_that_was_lost(proxy: Proxy, direct: RemoteFrontier) -> None:
    direct.schedule_many(pages("ABC", 1))
    remote = RemoteFrontier(proxy.address, retry_for=0.0)
    with pytest.raises(ConnectionLost):
        lose_the_reply(proxy, lambda: remote.lease(3), lambda: direct.summary().in_process)
    until(lambda: _answers(remote))
    remote.close()
    assert direct.summary().in_process == 0


def test_a_task_that_is_cancelled_leaves_no_lease_behind(served: Served, proxy: Proxy, direct: RemoteFrontier) -> None:
    async def main() -> None:
        async with AsyncRemoteFrontier(proxy.address) as remote:
            proxy.deaf.set()
            task = asyncio.ensure_future(remote.lease(3))
            while not await asyncio.to_thread(lambda: direct.summary().in_process):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            proxy.deaf.clear()
            proxy.cut()
            assert await remote.schedule("https://d.test/") is Admission.ADDED
            assert (await remote.summary()).in_process == 0
            waiting = asyncio.ensure_future(remote.lease(1, wait=PATIENCE))
            assert await waiting

    direct.schedule_many(pages("ABC", 1))
    asyncio.run(main())
    assert direct.summary().expired == 0


def test_a_client_waits_through_a_lost_connection(proxy: Proxy, direct: RemoteFrontier) -> None:
    with RemoteFrontier(proxy.address) as remote:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(remote.lease(5, wait=PATIENCE)))
        thread.start()
        for _ in range(3):
            proxy.cut()
        direct.schedule_many(pages("A", 1))
        thread.join(PATIENCE)
        assert [lease.uri.url for lease in found] == pages("A", 1)
        assert direct.summary().in_process == 1


def test_the_client_of_a_server_that_has_gone_can_be_closed(proxy: Proxy, direct: RemoteFrontier) -> None:
    direct.schedule_many(pages("A", 1))
    with RemoteFrontier(proxy.address) as remote:
        assert remote.lease()
        proxy.deaf.set()
        proxy.cut()
    assert direct.summary().in_process == 1  # until it expires


def _answers(remote: RemoteFrontier) -> bool:
    try:
        remote.summary()
    except ConnectionLost:
        return False
    return True


def test_what_a_call_says_of_others_is_said_again_when_it_is_repeated() -> None:
    link = Link("127.0.0.1:1", "DEFAULT", None, False)
    rpc = Rpc(protocol.LEASE, protocol.encode(protocol.Wanted(1)))
    decode: Callable[[bytes], protocol.Call] = protocol.decoder(protocol.Call)
    given_up, repeated, last = (link.number(rpc) for _ in range(3))
    link.abandon(given_up)
    for _ in range(2):  # the first may be lost with its connection
        assert decode(link.body(rpc, repeated)).abandoned == [given_up]
    link.abandon(repeated)
    assert decode(link.body(rpc, last)).abandoned == [given_up, repeated]
    link.answered(rpc, last, protocol.encode([]))
    after = link.number(rpc)
    assert (decode(link.body(rpc, after)).abandoned, decode(link.body(rpc, after)).received) == ([], [last])


def test_who_waits_when_a_client_is_closed_is_told_so(served: Served) -> None:
    told: list[BaseException] = []

    def wait(remote: RemoteFrontier) -> None:
        try:
            remote.lease(wait=PATIENCE)
        except BaseException as error:
            told.append(error)

    remote = RemoteFrontier(served.address)
    thread = threading.Thread(target=wait, args=(remote,))
    thread.start()
    until(lambda: remote.transport._waits._begun)
    remote.close()
    thread.join(PATIENCE)
    assert [type(error) for error in told] == [FrontierClosed]

    async def main() -> None:
        twin = await AsyncRemoteFrontier(served.address).connect()
        waiting = asyncio.ensure_future(twin.lease(wait=PATIENCE))
        cancelled = asyncio.ensure_future(twin.lease(wait=PATIENCE))
        await twin.summary()  # both are sent
        cancelled.cancel()
        await twin.close()
        with pytest.raises(FrontierClosed):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(main())
