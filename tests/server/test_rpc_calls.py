"""Calls in bulk: order, ends, failures, back pressure, and clients that vanish."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote

import grpc
import pytest

from budgetfrontier.server.rpc_calls import MOST_IN_A_TURN, MOST_UNANSWERED, MOST_UNANSWERED_BYTES, Handed, MessageTurns
from budgetfrontier.server.urlfrontier.methods import METHODS
from tests.server.urlfrontier.serving import served, serving_turns
from tests.support import PATIENCE, until

PUT, GET, STATS = METHODS["PutURLs"], METHODS["GetURLs"], METHODS["GetStats"]


@contextmanager
def serving(hand_over: Callable[[list[Handed]], None]) -> Iterator[grpc.Channel]:
    """Serve all RPCs, and yield a channel to the server."""
    with served(hand_over) as address, grpc.insecure_channel(address) as channel:
        yield channel


def echo(turn: list[Handed]) -> None:
    for call, message in turn:
        if message is not None:
            call.reply([message], last=not call.method.streams_requests)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_stream_is_answered_in_order_and_ends_after_its_last_reply() -> None:
    sizes: list[int] = []

    def hand_over(turn: list[Handed]) -> None:
        sizes.append(len(turn))
        echo(turn)

    with serving(hand_over) as channel:
        assert list(channel.stream_stream(PUT.path)(iter(numbered(5000)), timeout=PATIENCE)) == numbered(5000)
        assert list(channel.stream_stream(PUT.path)(iter(()), timeout=PATIENCE)) == []
    assert sum(sizes) == 5000
    assert max(sizes) <= MOST_IN_A_TURN


def test_replies_may_come_from_another_thread() -> None:
    turns: queue.SimpleQueue[list[Handed] | None] = queue.SimpleQueue()

    def work() -> None:
        while (turn := turns.get()) is not None:
            echo(turn)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with serving(turns.put) as channel, ThreadPoolExecutor(4) as clients:
            put = channel.stream_stream(PUT.path)
            streams = [clients.submit(lambda: list(put(iter(numbered(1000)), timeout=PATIENCE))) for _ in range(4)]
            assert all(stream.result() == numbered(1000) for stream in streams)
            assert channel.unary_unary(STATS.path)(b"a", timeout=PATIENCE) == b"a"
    finally:
        turns.put(None)
        worker.join()


def test_replies_to_one_request_are_asked_for_when_there_is_room() -> None:
    left = numbered(10)

    def hand_over(turn: list[Handed]) -> None:
        for call, message in turn:
            assert message == (b"request" if len(left) == 10 else None)
            call.reply([left.pop(0), left.pop(0)], last=len(left) == 0)

    with serving(hand_over) as channel:
        assert list(channel.unary_stream(GET.path)(b"request", timeout=PATIENCE)) == numbered(10)


def test_the_last_replies_may_be_none() -> None:
    with serving(lambda turn: turn[0][0].reply([], last=True)) as channel:
        assert list(channel.unary_stream(GET.path)(b"request", timeout=PATIENCE)) == []


def test_no_further_replies_are_asked_for_after_the_last_ones() -> None:
    waiting: list[Handed] = []
    echoed: list[Handed] = []
    with serving(waiting.extend) as channel:
        for number in range(300):
            reply = channel.unary_unary(STATS.path).future(b"%d" % number, timeout=PATIENCE)
            until(lambda: len(waiting) >= len(echoed) + 1)
            echoed.append(waiting[-1])
            echo(echoed[-1:])
            assert reply.result() == b"%d" % number
    assert [message for _, message in waiting] == numbered(300)


def test_an_empty_message_is_a_request() -> None:
    with serving(echo) as channel:
        assert channel.unary_unary(STATS.path)(b"", timeout=PATIENCE) == b""


def test_a_call_ends_with_a_status_after_its_replies() -> None:
    def hand_over(turn: list[Handed]) -> None:
        [(call, _)] = turn
        call.reply([b"a", b"b"])
        call.end(grpc.StatusCode.NOT_FOUND, "no such URL")
        call.reply([b"c"])
        call.end()

    with serving(hand_over) as channel:
        replies = channel.unary_stream(GET.path)(b"", timeout=PATIENCE)
        assert [next(replies), next(replies)] == [b"a", b"b"]
        with pytest.raises(grpc.RpcError) as error:
            next(replies)
        assert (error.value.code(), error.value.details()) == (grpc.StatusCode.NOT_FOUND, "no such URL")


@pytest.mark.parametrize("letter", ["a", "é", "本", "😀", "\udce9"])
def test_details_of_any_letters_fit_into_the_trailers_that_clients_take(letter: str) -> None:
    """Java's client takes 8 KiB, that of gRPC for C refuses more at random."""
    with serving(lambda turn: turn[0][0].end(grpc.StatusCode.NOT_FOUND, letter * 5000)) as channel:
        for _ in range(20):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(STATS.path)(b"", timeout=PATIENCE)
            assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert 0 < len(quote(error.value.details())) <= 4096
    assert set(error.value.details()) <= set(letter.encode(errors="backslashreplace").decode())


def test_a_call_without_a_request_is_refused() -> None:
    with serving(echo) as channel, pytest.raises(grpc.RpcError) as error:
        list(channel.stream_stream(STATS.path)(iter(()), timeout=PATIENCE))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_turn_that_fails_ends_its_calls_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    def hand_over(turn: list[Handed]) -> None:
        if any(message == b"bad" for _, message in turn):
            raise ZeroDivisionError
        echo(turn)

    with serving(hand_over) as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(STATS.path)(b"bad", timeout=PATIENCE)
        assert error.value.code() == grpc.StatusCode.INTERNAL
        assert channel.unary_unary(STATS.path)(b"good", timeout=PATIENCE) == b"good"
    assert "a turn of 1 messages failed" in caplog.text


@pytest.mark.parametrize(
    ("size", "most"), [(1, MOST_UNANSWERED), (100_000, -(-MOST_UNANSWERED_BYTES // 100_000))], ids=["small", "large"]
)
def test_a_stream_is_not_read_further_than_its_replies(size: int, most: int) -> None:
    waiting: list[Handed] = []
    with serving(waiting.extend) as channel:
        stream = channel.stream_stream(PUT.path)(iter([b"x" * size] * 4 * most), timeout=PATIENCE)
        until(lambda: len(waiting) == most)
        assert another_is_answered(channel, waiting)
        assert len(waiting) == most, "read on without replies"
        for _ in range(4 * most):
            until(lambda: bool(waiting))
            waiting.pop(0)[0].reply([b"ok"])
        assert list(stream) == [b"ok"] * 4 * most


def test_a_client_that_never_reads_is_not_read_on() -> None:
    handed: list[int] = []

    def hand_over(turn: list[Handed]) -> None:
        for call, message in turn:
            if call.method is PUT:
                handed.append(1)
                call.reply([b"x" * 1_000_000])
            else:
                echo([(call, message)])

    with serving(hand_over) as channel:
        stream = channel.stream_stream(PUT.path)(iter(numbered(100_000)), timeout=PATIENCE)
        until(lambda: len(handed) >= MOST_UNANSWERED)
        assert channel.unary_unary(STATS.path)(b"other", timeout=PATIENCE) == b"other"
        assert len(handed) < 2 * MOST_UNANSWERED
        stream.cancel()


def another_is_answered(channel: grpc.Channel, waiting: list[Handed]) -> bool:
    """Return whether another call is answered; all events that had arrived before are over then."""
    call = channel.unary_unary(STATS.path).future(b"other", timeout=PATIENCE)
    until(lambda: waiting and waiting[-1][1] == b"other")
    echo([waiting.pop()])
    return bool(call.result() == b"other")


def test_a_client_that_vanishes_is_forgotten_with_its_replies() -> None:
    waiting: list[Handed] = []
    with serving(waiting.extend) as channel:
        stream = channel.stream_stream(PUT.path)(iter(numbered(10)), timeout=PATIENCE)
        until(lambda: len(waiting) == 10)
        stream.cancel()
        call = waiting[0][0]
        until(lambda: call.ended)
        echo(waiting)
        call.end()
        waiting.clear()
        assert another_is_answered(channel, waiting)


def test_a_stream_that_begins_when_the_server_is_stopped_ends() -> None:
    turns = MessageTurns(echo)
    with serving_turns(turns) as address, grpc.insecure_channel(address) as channel:
        turns.stop()  # before gRPC has taken the call
        with pytest.raises(grpc.RpcError) as error:
            list(channel.stream_stream(PUT.path)(iter(()), timeout=PATIENCE))
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_server_stops_with_open_calls() -> None:
    waiting: list[Handed] = []
    with serving(waiting.extend) as channel:
        sent = numbered(MOST_UNANSWERED + 44)
        streams = [channel.stream_stream(PUT.path)(iter(sent), timeout=PATIENCE) for _ in range(8)]
        until(lambda: len(waiting) == len(streams) * MOST_UNANSWERED)
    echo(waiting)
    for stream in streams:
        with pytest.raises(grpc.RpcError):
            list(stream)
