"""The sessions of clients: replies that may be lost, kept so that repeated calls are applied once.

They are in memory only. After a restart of the server a repeated call is applied: to end a lease again changes
nothing, and to schedule a URI again finds it known, unless it has `force`; leases with a lost reply expire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import monotonic
from typing import Any

from budgetfrontier.errors import FrontierClosed
from budgetfrontier.server import tasks
from budgetfrontier.server.tasks import CallbackStep, Done

MOST_REPLIES = 1000
"""Replies that are remembered for one session; the oldest are forgotten first."""
MOST_NUMBERS = 10_000
"""Calls of one session that a later one may name as the one before it."""
SILENCE = 600.0
"""Seconds without a call after which a session is forgotten, also after its client has left."""

Work = Callable[[], Coroutine[Any, Any, bytes]]


class PendingReply:
    """The reply to a call, which may not have been given yet. All methods may be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Done] = []
        self._result: tuple[Any, BaseException | None] | None = None

    @property
    def ended(self) -> bool:
        """Whether it has been given."""
        return self._result is not None

    def end(self, result: Any, error: BaseException | None) -> None:
        """Give the reply."""
        with self._lock:
            self._result = result, error
            waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(result, error)

    def wait(self, done: Done) -> None:
        """Call `done` with the reply once it is given."""
        with self._lock:
            result = self._result
            if result is None:
                self._waiting.append(done)
        if result is not None:
            done(*result)


class CallSession:
    """The calls of one client to one crawl. All methods may be called in any thread."""

    def __init__(self) -> None:
        self.used = monotonic()
        self._lock = threading.Lock()
        self._left = False
        self._replies: dict[int, PendingReply] = {}
        self._begun: dict[int, None] = {}
        self._unwanted: dict[int, None] = {}
        self._later: dict[int, list[Callable[[], None]]] = {}
        """By the number of a call that has not begun: those that come after it."""

    @property
    def busy(self) -> bool:
        """Whether a call has no reply yet."""
        with self._lock:
            return any(not reply.ended for reply in self._replies.values())

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget replies that have reached the client."""
        with self._lock:
            for number in numbers:
                self._replies.pop(number, None)

    def taken(self, numbers: Sequence[int]) -> list[PendingReply]:
        """Forget the replies to calls that nobody waits for any more, and return them; begin none of these calls."""
        with self._lock:
            self._unwanted.update(dict.fromkeys(numbers))
            _trim(self._unwanted, MOST_NUMBERS)
            return [self._replies.pop(number) for number in numbers if number in self._replies]

    def leave(self) -> list[PendingReply]:
        """Begin no call any more; forget all replies, and return them."""
        with self._lock:
            self._left = True
            left, self._replies = list(self._replies.values()), {}
        return left

    def reply(self, number: int, after: int, work: Work) -> CallbackStep[bytes]:
        """Return the reply to a call; do the work if the call is new, once the call `after` has begun.

        The work goes on if the client loses its connection meanwhile. Raises FrontierClosed after `leave` and `taken`.
        """
        return CallbackStep(lambda done: self._start(number, after, work, done))

    def _start(self, number: int, after: int, work: Work, done: Done) -> None:
        with self._lock:
            self.used = monotonic()
            reply = self._replies.get(number)
            new = reply is None
            if reply is None and not (self._left or number in self._unwanted):
                if after and after not in self._begun:
                    self._later.setdefault(after, []).append(lambda: self._start(number, 0, work, done))
                    _trim(self._later, MOST_REPLIES)
                    return
                reply = self._replies[number] = PendingReply()
                self._begun[number] = None
                _trim(self._replies, MOST_REPLIES)
                _trim(self._begun, MOST_NUMBERS)
        if reply is None:  # a call that was waiting for URIs: nobody would take them
            done(None, FrontierClosed("this client has given the call up"))
            return
        reply.wait(done)
        if new:
            tasks.run(work(), reply.end)
            with self._lock:
                later = self._later.pop(number, [])
            for start in later:
                start()


class Sessions:
    """The sessions of all clients, by crawl and id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, bytes], CallSession] = {}
        self._swept = monotonic()

    def get(self, crawl: str, name: bytes) -> CallSession:
        """Return a session, begun if need be."""
        now = monotonic()
        with self._lock:
            if now > self._swept + SILENCE / 10:
                self._swept = now
                for key, each in list(self._sessions.items()):
                    if now > each.used + SILENCE and not each.busy:
                        del self._sessions[key]
            session = self._sessions.get((crawl, name))
            if session is None:
                session = self._sessions[crawl, name] = CallSession()
        return session


def _trim(numbers: dict[int, Any], most: int) -> None:
    while len(numbers) > most:
        del numbers[next(iter(numbers))]
