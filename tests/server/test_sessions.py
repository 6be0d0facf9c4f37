"""The replies that a server remembers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from budgetfrontier.errors import FrontierClosed
from budgetfrontier.server import sessions
from budgetfrontier.server.sessions import CallSession, Sessions
from budgetfrontier.server.tasks import CallbackStep, Done


class Calls:
    """Work that ends when it is told to, and what was replied."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.replies: list[Any] = []
        self._open: dict[str, Done] = {}

    def work(self, name: str) -> Callable[[], Coroutine[Any, Any, bytes]]:
        async def do() -> bytes:
            self.begun.append(name)
            reply: bytes = await CallbackStep(lambda done: self._open.update({name: done}))
            return reply

        return do

    def end(self, name: str, error: Exception | None = None) -> None:
        self._open.pop(name)(None if error else name.encode(), error)

    def ask(self, session: CallSession, number: int, name: str, after: int = 0) -> None:
        session.reply(number, after, self.work(name)).start(lambda reply, error: self.replies.append(error or reply))


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_a_call_that_is_repeated_is_answered_and_not_applied_again(calls: Calls) -> None:
    session = CallSession()
    calls.ask(session, 1, "one")
    calls.ask(session, 1, "again")
    assert session.busy
    assert calls.begun == ["one"] and calls.replies == []
    calls.end("one")
    calls.ask(session, 1, "and again")
    assert calls.begun == ["one"] and calls.replies == [b"one"] * 3
    session.forget([1, 2])
    calls.ask(session, 1, "new")
    assert calls.begun == ["one", "new"]


def test_an_error_is_a_reply(calls: Calls) -> None:
    session, error = CallSession(), ValueError("no")
    calls.ask(session, 1, "one")
    calls.end("one", error)
    calls.ask(session, 1, "one")
    assert calls.replies == [error, error]


def test_a_call_waits_for_the_one_before_it_to_begin(calls: Calls) -> None:
    session = CallSession()
    calls.ask(session, 3, "three", after=2)
    calls.ask(session, 2, "two", after=1)
    assert calls.begun == []
    calls.ask(session, 1, "one")
    assert calls.begun == ["one", "two", "three"]
    session.forget([1])
    calls.ask(session, 4, "four", after=1)
    assert calls.begun[-1] == "four"


def test_what_nobody_waits_for_is_taken_out(calls: Calls) -> None:
    session = CallSession()
    calls.ask(session, 1, "one")
    calls.ask(session, 2, "two")
    assert len(session.taken([2, 7])) == 1 and len(session.leave()) == 1 and session.leave() == []


def test_a_call_that_nobody_waits_for_is_not_begun(calls: Calls) -> None:
    session = CallSession()
    session.taken([1])
    calls.ask(session, 1, "given up")
    calls.ask(session, 2, "two")
    session.leave()
    calls.ask(session, 3, "after the client has left")
    assert calls.begun == ["two"] and [type(reply) for reply in calls.replies] == [FrontierClosed, FrontierClosed]


def test_memory_is_bounded(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_REPLIES", 3)
    session = CallSession()
    for number in range(1, 10):
        calls.ask(session, number, str(number))
    assert len(session.leave()) == 3


def test_sessions_that_are_silent_are_forgotten_unless_a_call_goes_on(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(sessions, "monotonic", lambda: now)
    found = Sessions()
    silent, busy = found.get("crawl", b"silent"), found.get("crawl", b"busy")
    calls.ask(silent, 1, "one")
    calls.end("one")
    calls.ask(busy, 1, "two")
    assert found.get("other", b"silent") is not silent and found.get("crawl", b"silent") is silent
    now = sessions.SILENCE + 1
    assert found.get("crawl", b"busy") is busy and found.get("crawl", b"silent") is not silent
