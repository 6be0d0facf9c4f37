"""The wish that a server stops: made in a handler of a signal, or in another thread."""

from __future__ import annotations

from math import inf
from queue import Empty, SimpleQueue
from time import monotonic

LOOK_AGAIN = 0.25
"""Seconds after which a thread that waits lets Python run handlers: a signal that arrives in another thread, or just
before the wait, does not wake it."""


class Stop:
    """The wish that a server stops. Unlike an Event, it may be set in a handler of a signal while the thread waits."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[str] = SimpleQueue()

    def ask(self, reason: str = "") -> None:
        """Let the server stop because of a signal of this name, if any; a second time: at once."""
        self._asked.put(reason)

    def wait(self, seconds: float = inf) -> str | None:
        """Wait until somebody has asked once more, and return the reason; None if nobody has within so many seconds."""
        end = monotonic() + seconds
        while True:
            left = max(end - monotonic(), 0.0)
            try:
                return self._asked.get(timeout=min(left, LOOK_AGAIN))
            except Empty:
                if left <= LOOK_AGAIN:
                    return None
