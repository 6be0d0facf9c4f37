"""What is asked in one turn of the loop is one message; calls come after what was asked before them."""

from __future__ import annotations

import asyncio
from queue import SimpleQueue

from budgetfrontier import CrawlUri, Finish, Lease, Outcome
from budgetfrontier.aio.turn_batching import BATCH, TurnBatcher, TurnMessage, futures_of
from tests.aio.loops import in_loop, page


def outbox_and_inbox() -> tuple[TurnBatcher, SimpleQueue[TurnMessage]]:
    inbox: SimpleQueue[TurnMessage] = SimpleQueue()
    outbox = TurnBatcher(inbox)
    outbox.start(asyncio.get_running_loop())
    return outbox, inbox


def lease(number: int) -> Lease:
    return Lease(number, "a.test", CrawlUri(page(number)), 1, 0.0, 1)


@in_loop
async def test_one_turn_is_one_message() -> None:
    outbox, inbox = outbox_and_inbox()
    first, second = outbox.add(page(1)), outbox.add(page(2))
    outbox.end(done := lease(1))
    outbox.end(finish := Finish(lease(2), Outcome.RETRY))
    for count in (1, 1, -1):
        outbox.want(count)
    assert inbox.empty() and "2 to end, 2 to add, 1 wanted" in repr(outbox)
    await asyncio.sleep(0)
    message = inbox.get_nowait()
    assert message == (1, [done, finish], [page(1), page(2)], [first, second], None, 4)
    outbox.want(1)
    await asyncio.sleep(0)
    assert inbox.get_nowait() == (1, [], [], [], None, 0)
    await asyncio.sleep(0)
    outbox.flush()
    assert inbox.empty()


@in_loop
async def test_a_call_comes_at_once_after_what_was_asked_before_it() -> None:
    outbox, inbox = outbox_and_inbox()
    future = asyncio.get_running_loop().create_future()
    admission = outbox.add(page(1))
    outbox.call(repr, 1, future)
    outbox.end(done := lease(1))
    outbox.call(repr, 2)
    first, second = inbox.get_nowait(), inbox.get_nowait()
    assert (first.uris, first.call, futures_of(first)) == ([page(1)], (repr, 1, future), [admission, future])
    assert (second.endings, second.call, futures_of(second)) == ([done], (repr, 2, None), [])
    await asyncio.sleep(0)
    assert inbox.empty()


@in_loop
async def test_no_message_holds_more_than_one_batch() -> None:
    outbox, inbox = outbox_and_inbox()
    for number in range(2 * BATCH + 1):
        outbox.add(page(number))
    for number in range(BATCH + 1):
        outbox.end(lease(number))
    outbox.want(3)
    outbox.call(repr, None)
    messages = [inbox.get_nowait() for _ in range(3)]
    assert [(m.wanted, len(m.endings), len(m.uris), m.size) for m in messages] == [
        (3, BATCH, BATCH, 2 * BATCH),
        (0, 1, BATCH, BATCH + 1),
        (0, 0, 1, 1),
    ]
    assert [m.call is None for m in messages] == [True, True, False] and inbox.empty()
    assert [url for m in messages for url in m.uris] == [page(number) for number in range(2 * BATCH + 1)]


@in_loop
async def test_uris_that_were_found_count_too() -> None:
    outbox, inbox = outbox_and_inbox()
    outbox.end(lease(1), BATCH - 1)
    assert inbox.empty()
    outbox.end(lease(2), 1)
    assert inbox.get_nowait().size == BATCH + 2


def test_between_two_runs_of_the_loop_nothing_waits() -> None:
    async def make() -> tuple[TurnBatcher, SimpleQueue[TurnMessage]]:
        return outbox_and_inbox()

    outbox, inbox = asyncio.run(make())
    outbox.end(done := lease(1))
    assert inbox.get_nowait().endings == [done]
