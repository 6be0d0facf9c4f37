"""Long polling of `Lease` without threads: of the calls that wait, the first looks for URIs, the others follow."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import Any

from budgetfrontier.server.tasks import CallbackStep, Done
from budgetfrontier.server.timers import Timers


class LongPoll:
    """The line of the clients that wait for URIs of one crawl. All methods may be called in any thread."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lock = threading.Lock()
        self._line: deque[_Once] = deque()
        self._taken = False
        self._asleep: _Once | None = None
        self.changes = 0
        """The number of changes that may have made URIs ready."""

    @property
    def is_used(self) -> bool:
        """Whether a client waits or looks."""
        return self._taken

    def changed(self) -> None:
        """Let the first in line look for URIs."""
        with self._lock:
            self.changes += 1
            asleep, self._asleep = self._asleep, None
        if asleep is not None:
            asleep.end(None)

    def enter(self, until: float) -> CallbackStep[bool]:
        """Wait to be the first in line, which has to `leave`; False if that was not before a time of `monotonic`."""

        def start(done: Done) -> None:
            once = _Once(done)
            with self._lock:
                first = not self._taken
                self._taken = True
                if not first:
                    self._line.append(once)
            if first:
                once.end(True)
            else:
                self._timers.after(until - monotonic(), lambda: once.end(False))

        return CallbackStep(start)

    def sleep(self, seconds: float, changes: int) -> CallbackStep[None]:
        """Wait for a while, or until there are more changes than so many."""

        def start(done: Done) -> None:
            once = _Once(done)
            with self._lock:
                self._asleep = once if self.changes == changes else None
                asleep = self._asleep
            if asleep is None:
                once.end(None)
            else:
                self._timers.after(seconds, lambda: once.end(None))

        return CallbackStep(start)

    def leave(self) -> None:
        """Let the next in line be the first."""
        self._timers.after(0.0, self._next)  # in another thread, for a line of clients that have gone may be long

    def _next(self) -> None:
        while True:
            with self._lock:
                once = self._line.popleft() if self._line else None
                self._taken = once is not None
            if once is None or once.end(True):
                return


class _Once:
    """A step of a task that ends at the first of several events."""

    def __init__(self, done: Done) -> None:
        self._done: Done | None = done
        self._lock = threading.Lock()

    def end(self, result: Any) -> bool:
        """End the step; False if it has ended."""
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return False
        done(result, None)
        return True
