"""Batching of tasks' requests to the frontier's thread: those of one turn of the event loop are one message.

A change of threads costs more than most messages. Tasks that end leases, add URIs and wait for requests in the same
turn share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from budgetfrontier.core.model import CrawlUri, Finish, Lease

BATCH = 500  # leases ended, and URIs added, in one message at most

Future = asyncio.Future[Any]

Call = tuple[Callable[[Any], object], Any, Future | None]
"""A method of the Worker, its argument, and the future that the reply resolves, if any."""


class TurnMessage(NamedTuple):
    """The requests of one turn of the loop, and a call that comes after them, if any."""

    wanted: int
    """`get` calls that wait since; negative if more have given up."""
    endings: list[Lease | Finish]
    uris: list[str | CrawlUri]
    admissions: list[Future]
    """The future of each of those URIs."""
    call: Call | None
    size: int
    """URIs in it: ended, found on those, and added."""


def futures_of(message: TurnMessage) -> list[Future]:
    """Return all futures that wait for the results of a message."""
    reply_to = message.call[2] if message.call else None
    return message.admissions if reply_to is None else [*message.admissions, reply_to]


class TurnBatcher:
    """The requests of this turn of the loop; at its end, or before another call, they go into the inbox.

    For the thread of the loop.
    """

    def __init__(self, inbox: SimpleQueue[TurnMessage]) -> None:
        self._inbox = inbox
        self._loop: asyncio.AbstractEventLoop
        self._ends_with_turn = False
        """Whether `_end_turn` is going to be called."""
        self._wanted = 0
        self._endings: list[Lease | Finish] = []
        self._found = 0
        """URIs found on those that were ended."""
        self._uris: list[str | CrawlUri] = []
        self._admissions: list[Future] = []

    def __repr__(self) -> str:
        return f"<TurnBatcher: {len(self._endings)} to end, {len(self._uris)} to add, {self._wanted} wanted>"

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the loop whose turns count."""
        self._loop = loop

    def add(self, uri: str | CrawlUri) -> Future:
        """Add a URI; return the future of its admission."""
        future = self._loop.create_future()
        self._uris.append(uri)
        self._admissions.append(future)
        if not self._ends_with_turn:
            self._begin_turn()
        return future

    def end(self, finished: Lease | Finish, found: int = 0) -> None:
        """End a lease, on which that many URIs were found."""
        self._endings.append(finished)
        if found:
            self._found += found
            if self._found >= BATCH:
                self._flush(None)
        if not self._ends_with_turn:
            self._begin_turn()

    def want(self, count: int) -> None:
        """Add `count`, which may be negative, to the number of waiting `get` calls."""
        self._wanted += count
        if not self._ends_with_turn:
            self._begin_turn()

    def call(self, function: Callable[[Any], object], argument: object, reply_to: Future | None = None) -> None:
        """Call a method of the worker, after all earlier requests. Does not wait for the end of the turn."""
        self._flush((function, argument, reply_to))

    def flush(self) -> None:
        """Send the gathered requests now."""
        if self._uris or self._endings or self._wanted:
            self._flush(None)

    def _begin_turn(self) -> None:
        if asyncio._get_running_loop() is self._loop:
            self._ends_with_turn = True
            self._loop.call_soon(self._end_turn)
        else:  # between two runs of the loop: the next may never come
            self.flush()

    def _end_turn(self) -> None:
        self._ends_with_turn = False
        self.flush()

    def _flush(self, call: Call | None) -> None:
        endings, uris, admissions = self._endings, self._uris, self._admissions
        wanted, found = self._wanted, self._found
        self._endings, self._uris, self._admissions = [], [], []
        self._wanted = self._found = 0
        last = max(len(endings), len(uris), 1)
        for start in range(0, last, BATCH):
            end = start + BATCH
            part = endings[start:end], uris[start:end], admissions[start:end]
            size = found + len(part[0]) + len(part[1])
            self._inbox.put(TurnMessage(wanted, *part, call if end >= last else None, size))
            wanted = found = 0
