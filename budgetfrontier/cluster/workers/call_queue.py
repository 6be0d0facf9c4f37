"""Queue of calls to partitions by other threads, which the thread of the frontiers takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from budgetfrontier.cluster.partitions.partition import WaitingCall
from budgetfrontier.errors import NotOwner


class CallQueue:
    """Calls in the order in which they came, each with its partition. `put` may be called in any thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[int, WaitingCall]] = SimpleQueue()
        self._refusal: str | None = None

    def __repr__(self) -> str:
        return f"<CallQueue: {self._queue.qsize()} waiting>"

    def put(self, number: int, call: WaitingCall) -> None:
        """Queue a call; after the end, it gets NotOwner."""
        self._queue.put((number, call))
        if self._refusal is not None:
            self._refuse(self._refusal)

    def take(self) -> Iterator[tuple[int, WaitingCall]]:
        """Yield all calls that wait."""
        with suppress(Empty):
            while True:
                yield self._queue.get_nowait()

    def end(self, why: str) -> None:
        """Take no calls any more: other workers are to be asked."""
        self._refusal = why
        self._refuse(why)

    def _refuse(self, why: str) -> None:
        for _, call in self.take():
            call.done(None, NotOwner(why))
