"""The thread of a crawl: it owns the frontier, applies calls in order, and commits before their replies go out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed
from budgetfrontier.model import RunEnd
from budgetfrontier.settings import Settings

_T = TypeVar("_T")

PROGRAM = "budgetfrontier serve"
MOST_SECONDS = 0.01
"""Seconds of calls between two commits, at the least one call: those that wait share a commit."""
IDLE = 0.5
"""Seconds without a call after which the mailbox is looked at, and what has expired or is due is moved."""


class _Call(NamedTuple):
    work: Callable[[Frontier], Any] | None
    reply: asyncio.Future[Any]
    changes: bool


class CrawlThread:
    """A crawl whose frontier runs in a thread of its own. `run` may be called in the thread of the event loop only.

    The replies of calls that change something go out once the changes are on disk: what was acknowledged survives a
    crash. All calls that arrive during a commit share the next one.
    """

    def __init__(self, name: str, folder: Path, settings: Settings | None, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.folder = folder
        self._settings = settings
        self._loop = loop
        self._inbox: SimpleQueue[_Call] = SimpleQueue()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(target=self._main, name=f"crawl {name}", daemon=True)
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<CrawlThread {self.name}: {self.folder}>"

    async def open(self) -> None:
        """Open the frontier, or create it. Raises FrontierError."""
        self._thread.start()
        await self._opened

    async def run(self, work: Callable[[Frontier], _T], *, changes: bool = True) -> _T:
        """Call a function with the frontier; return its result, after a commit if it `changes` something.

        Raises what the function raises, and FrontierClosed once the thread has ended.
        """
        if self._error is not None:
            raise FrontierClosed(f"the frontier of crawl {self.name!r} was closed by an error: {self._error}")
        reply: asyncio.Future[_T] = self._loop.create_future()
        self._inbox.put(_Call(work, reply, changes))
        return await reply

    async def close(self) -> None:
        """Apply the calls that wait, commit and close. Leases stay for the next run."""
        reply: asyncio.Future[None] = self._loop.create_future()
        if self._error is None and self._thread.is_alive():
            self._inbox.put(_Call(None, reply, True))
            await reply
        await self._loop.run_in_executor(None, self._thread.join)

    # -- in the thread

    def _main(self) -> None:
        try:
            frontier = Frontier.open(self.folder, self._settings, keep_leases=True, program=PROGRAM)
        except BaseException as e:
            self._error = e
            self._post([(self._opened, None, e)])
            return
        self._post([(self._opened, None, None)])
        last: _Call | None = None
        try:
            while last is None:
                last = self._round(frontier)
            frontier.close(end=RunEnd.EXIT)
            self._post([(last.reply, None, None)])
        except BaseException as e:
            self._error = e
            waiting = [] if last is None else [last]
            while not self._inbox.empty():
                waiting.append(self._inbox.get())
            self._post([(call.reply, None, e) for call in waiting])

    def _round(self, frontier: Frontier) -> _Call | None:
        """Apply the calls that wait, commit, and let their replies go; return the one that ends the thread."""
        calls = self._receive()
        if not calls:
            frontier.lease(0)
            frontier.commit()
            return None
        replies: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            for call in calls:
                if call.work is None:
                    return call
                try:
                    replies.append((call.reply, call.work(frontier), None))
                except Exception as e:
                    replies.append((call.reply, None, e))
            if any(call.changes for call in calls):
                frontier.commit()
        except BaseException as e:
            replies = [(call.reply, None, e) for call in calls]
            raise
        finally:
            self._post(replies)
        return None

    def _receive(self) -> list[_Call]:
        """Return the calls that wait; wait for one for a while."""
        try:
            calls = [self._inbox.get(timeout=IDLE)]
        except Empty:
            return []
        end = monotonic() + MOST_SECONDS
        while calls[-1].work is not None and not self._inbox.empty() and monotonic() < end:
            calls.append(self._inbox.get())
        return calls

    def _post(self, replies: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
        if replies and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_resolve, replies)


def _resolve(replies: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for reply, value, error in replies:
        if not reply.done():
            if error is None:
                reply.set_result(value)
            else:
                reply.set_exception(error)
