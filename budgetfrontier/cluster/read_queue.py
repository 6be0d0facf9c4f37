"""Queue of reads by other threads, which the thread of the frontiers runs between two entries of the logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from budgetfrontier.errors import NotOwner
from budgetfrontier.server.tasks import Done

Work = Callable[[], Any]


class ReadQueue:
    """Reads in the order in which they came. `add` may be called in any thread, at any time."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Work, Done]] = deque()
        self._refusal: str | None = None

    def __repr__(self) -> str:
        return f"<ReadQueue: {len(self._waiting)} waiting>"

    def add(self, work: Work, done: Done) -> None:
        """Queue a read, `work()`; `done` gets its result or its error, NotOwner after the end."""
        self._waiting.append((work, done))
        if self._refusal is not None:
            self._refuse(self._refusal)

    def take(self) -> None:
        """Run all reads that wait."""
        while self._waiting:
            work, done = self._waiting.popleft()
            try:
                result = work()
            except Exception as e:
                done(None, e)
            else:
                done(result, None)

    def end(self, why: str) -> None:
        """Take no reads any more: other workers are to be asked."""
        self._refusal = why
        self._refuse(why)

    def _refuse(self, why: str) -> None:
        with suppress(IndexError):  # another thread may do the same
            while True:
                self._waiting.popleft()[1](None, NotOwner(why))
