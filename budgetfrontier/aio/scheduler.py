"""The Scheduler: what tasks of an event loop call."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from math import inf
from queue import Empty
from threading import Thread
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec

from budgetfrontier.aio.worker import Answer, Failure, Future, Worker
from budgetfrontier.clock import Clock
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed
from budgetfrontier.leasing import AS_WRITTEN, open_frontier
from budgetfrontier.model import Admission, CrawlUri, Lease, Outcome, Summary, Tally
from budgetfrontier.settings import Settings

CHUNK = 200  # URIs of `add_many` in one message: whoever waits for a request waits that much longer

CANONICALIZATION = msgspec.structs.replace(AS_WRITTEN, strip_userinfo=True)
"""As qcrawl does it: user names and the order of query arguments make no difference."""

log = logging.getLogger("budgetfrontier.aio")

_T = TypeVar("_T")


class Scheduler:
    """A crawl queue for the tasks of one event loop: budgeted, fair between hosts, and still there after a crash.

    Use it with `async with`, or `open` and `close` it. A request is a `Lease`: `get` it, fetch `request.uri.url`, and
    say with `task_done` how it went. Whatever was not done when a process dies is handed out again by the next one.

    `path` is the folder of the frontier, or ":memory:"; without `settings` those stored there are in force, and a new
    one is not polite by itself: it hands out up to eight URIs of a host at a time, without delay. URLs are as different
    as they are written, but for user names and the order of query arguments, unless `canonicalization` in `settings`
    says otherwise, or the frontier was made otherwise. `maxsize` is how many
    URIs may be queued, those being processed apart; 0: no limit. When it is full, `add` waits for room, or with
    `when_full="drop"` says so. A request that is not done within `ttl` seconds (None: the setting, 300) is handed out
    again. Closing waits up to `grace` seconds for requests that are out. `hooks` are called in the frontier's thread.
    Raises ValueError or TypeError for wrong arguments.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        maxsize: int = 0,
        when_full: Literal["wait", "drop"] = "wait",
        ttl: float | None = None,
        grace: float = 2.0,
        hooks: Sequence[object] = (),
        clock: Clock | None = None,
    ) -> None:
        if maxsize < 0:
            raise ValueError("maxsize is a number of URIs; 0 for no limit")
        if when_full not in ("wait", "drop"):
            raise ValueError('when_full is "wait" or "drop"')
        self._path = os.fspath(path)
        self._grace = _seconds(grace, "grace")
        self._worker = Worker(
            partial(open_frontier, self._path, settings, hooks=hooks, clock=clock, canonicalization=CANONICALIZATION),
            deliver=self._deliver,
            end=self._finish_up,
            maxsize=maxsize,
            wait=when_full == "wait",
            ttl=None if ttl is None else _seconds(ttl, "ttl"),
        )
        self._thread: Thread | None = None
        self._waiters: OrderedDict[Future, asyncio.Task[Any] | None] = OrderedDict()
        """Who waits in `get`, in order, and the task it is."""
        self._out: dict[bytes, tuple[Lease, asyncio.Task[Any] | None]] = {}
        """What was handed out and is not done, oldest first, and to whom. A URI handed out again has its place."""
        self._closing = False
        self._stopped = False
        """The thread has been told to close the frontier: what is said after that reaches nobody."""
        self._ended = False
        self._error: BaseException | None = None

    async def open(self) -> Self:
        """Open the frontier, or create it. Raises what `Frontier.open` raises."""
        if self._thread is not None:
            raise FrontierClosed("a Scheduler is opened once; make another")
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()
        self._end = asyncio.Event()
        self._thread = Thread(target=self._worker.run, args=(self._loop,), name=f"frontier {self._path}", daemon=True)
        self._thread.start()
        try:
            await self._ask(self._worker.want, 0)
        except BaseException:
            self._tell(self._worker.stop, None)
            self._thread.join()  # as in `close`
            raise
        return self

    # -- in

    async def add(self, uri: str | CrawlUri) -> Admission:
        """Add a URI, once per canonical form: ADDED, DUPLICATE, INVALID, or FULL.

        When there is no room it waits, unless the scheduler drops then, or is closing: FULL. Of two URIs of a host the
        one with the higher `priority` goes first, then the older. Cancelled, it may have been added or not. Raises
        FrontierClosed. Each call waits for the frontier's thread: many tasks share that, one task alone has `add_many`.
        """
        admission: Admission = await self._ask(self._worker.add, uri)
        if admission is Admission.FULL:
            log.warning("queue full, dropping request: %s", uri.url if isinstance(uri, CrawlUri) else uri)
        return admission

    async def add_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Add a batch, several times cheaper per URI; what finds no room is counted in `full`, never waited for."""
        if isinstance(uris, str):
            raise TypeError("add_many takes an iterable of URIs; one URI goes to add")
        tally = Tally()
        remaining = iter(uris)
        while chunk := list(islice(remaining, CHUNK)):
            tally.add(await self._ask(self._worker.add_many, chunk))
        return tally

    # -- out

    async def get(self) -> Lease:
        """Wait for the next request; `request.uri` is what was added.

        Who waits longest gets the next one. Cancelled, it loses nothing: what was under way to it goes back, for free.
        Raises FrontierClosed once the scheduler is closing: what is queued then is for the next run.
        """
        self._check(closing=True)
        waiter: Future = self._loop.create_future()
        self._waiters[waiter] = asyncio.current_task()
        self._tell(self._worker.want, 1)
        try:
            request: Lease = await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.pop(waiter, None)
                self._tell(self._worker.want, -1)
            elif waiter.exception() is None:
                self._give_back(waiter.result(), wanted=0)
            raise
        return request

    def task_done(
        self,
        request: Lease | None = None,
        outcome: Outcome = Outcome.SUCCESS,
        *,
        fetch_seconds: float | None = None,
        crawl_delay: float | None = None,
        discovered: Iterable[str | CrawlUri] = (),
        reason: str = "",
        delay: float | None = None,
        retire_queue: bool = False,
    ) -> None:
        """Say how a request ended, once for each `get`; the options are those of `Frontier.finish`.

        Without `request` it is the oldest one that this task has got. RETRY and DEFERRED bring it back. Never waits: it
        is durable with the next commit. Raises ValueError for one that is not out; FrontierClosed after the end, and
        once closing no longer waits for what is out: the request comes again in the next run. What took longer than its
        `ttl` is logged: it is handed out again.
        """
        self._check(stopped=True)
        if request is None:
            task = asyncio.current_task()
            request = next((lease for lease, owner in self._out.values() if owner is task), None)
        out = request and self._out.get(request.key)
        if not request or not out:
            raise ValueError("task_done() called too many times: no such request is out")
        how: dict[str, Any] = {"reason": reason, "retire_queue": retire_queue}
        for name, seconds in (("fetch_seconds", fetch_seconds), ("delay", delay), ("crawl_delay", crawl_delay)):
            if seconds is not None:
                how[name] = _seconds(seconds, name)
        if discovered:
            how["discovered"] = list(discovered)
        self._tell(self._worker.finish, (request, Outcome(outcome), how))
        if out[0].id == request.id:  # else it took too long, and has been handed out again
            self._done(request)

    def __aiter__(self) -> Self:
        """The requests as they come, until the scheduler is closing: `async for request in scheduler`."""
        return self

    async def __anext__(self) -> Lease:
        try:
            return await self.get()
        except FrontierClosed:
            if self._error:
                raise
            raise StopAsyncIteration from None

    # -- looking, steering

    async def stats(self) -> dict[str, int]:
        """The counters: queued, pending (out, not done), future, dead, seen, waiting_consumers, closed (0 or 1)."""
        total = await self._totals()
        return {
            "queued": max(total.queued - total.in_process, 0),
            "pending": total.in_process,
            "future": total.future,
            "dead": total.dead,
            "seen": total.seen,
            "waiting_consumers": len(self._waiters),
            "closed": int(self._closing),
        }

    async def qsize(self) -> int:
        """How many URIs are queued, those that are out apart; those of RETIRED queues are not counted."""
        return (await self.stats())["queued"]

    async def idle(self) -> bool:
        """Whether nothing is queued, out, or scheduled for later: what `join` waits for."""
        return bool(await self._ask(self._worker.is_over, None))

    async def call(self, function: Callable[[Frontier], _T]) -> _T:
        """Run a function on the frontier in its thread, and return what it returns: reports, adjustments, renewals.

        Nothing else is handed out meanwhile. To keep a request longer: `call(lambda f: f.renew(request, 600))`.
        """
        answer: _T = await self._ask(self._worker.call, function)
        return answer

    # -- the end

    async def join(self) -> None:
        """Wait until nothing is queued, out, or scheduled for later, or until the scheduler has closed.

        What waits in RETIRED queues does not count. A crawl that an operator paused is waited for.
        """
        if not self._ended:
            await self._ask(self._worker.join, None)
        elif self._error:
            raise self._error

    async def close(self, *, grace: float | None = None) -> None:
        """Hand out nothing more, wait up to `grace` seconds (None: as set) for what is out, and close the frontier.

        Whoever waits in `get` gets FrontierClosed, in `add` FULL. Until all that is out is done, `add` and `task_done`
        go on; what is not done by then is given back uncounted, and comes first in the next run, before all that is
        queued. Everything is on disk when this returns. A second close waits for the first. Cancelled, it closes at
        once. Raises what ended the frontier before, if anything did.
        """
        grace = self._grace if grace is None else _seconds(grace, "grace")
        if self._thread is None:
            self._closing = self._ended = True
            return
        if not self._closing:
            self._closing = True
            self._refuse_waiters(FrontierClosed("the scheduler is closing"))
            self._tell(self._worker.halt, None)
        try:
            if self._out and grace > 0 and not self._ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._drained.wait()
            self._stop()
            await self._end.wait()
        except asyncio.CancelledError:
            self._stop()
            self._thread.join()  # as long as a commit takes: who is cancelled must not leave the frontier open
            raise
        self._thread.join()
        if self._error:
            raise self._error

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close(grace=None if error is None else 0.0)
        except Exception:
            if error is None:  # else that one is told, and often it is the same
                raise

    def __repr__(self) -> str:
        state = "closed" if self._ended else "closing" if self._closing else "open" if self._thread else "new"
        return f"<Scheduler {self._path} {state}, {len(self._out)} out, {len(self._waiters)} waiting>"

    # -- inside

    def _check(self, *, closing: bool = False, stopped: bool = False) -> None:
        if self._thread is None or self._ended or (closing and self._closing) or (stopped and self._stopped):
            if self._error:
                raise self._error
            raise FrontierClosed(f"this scheduler is {'closed' if self._closing else 'not open: use `async with`'}")

    def _stop(self) -> None:
        self._stopped = True
        self._tell(self._worker.stop, None)

    def _tell(self, function: Callable[[Any], object], argument: object) -> None:
        self._worker.inbox.put((function, argument, None))

    def _ask(self, function: Callable[[Any], object], argument: object) -> Future:
        self._check()
        future = self._loop.create_future()
        self._worker.inbox.put((function, argument, future))
        return future

    async def _totals(self) -> Summary:
        if self._ended and self._worker.totals:
            return self._worker.totals
        total: Summary = await self._ask(self._worker.call, Frontier.summary)
        return total

    def _deliver(self, answers: list[Answer], leases: list[Lease]) -> None:
        """In the loop's thread: give answers to those who asked, requests to those who wait longest."""
        for future, answer in answers:
            if future is None:
                if isinstance(answer, Failure):
                    self._tell(self._worker.want, -self._refuse_waiters(answer.error))
            elif not future.done():
                if isinstance(answer, Failure):
                    future.set_exception(answer.error)
                else:
                    future.set_result(answer)
        for lease in leases:
            while self._waiters:
                waiter, task = self._waiters.popitem(last=False)
                if not waiter.done():
                    self._out[lease.key] = lease, task
                    waiter.set_result(lease)
                    break
            else:
                self._give_back(lease, wanted=1)

    def _give_back(self, lease: Lease, *, wanted: int) -> None:
        """Give back what reached nobody, or `wanted=0`: what was counted as handed out."""
        self._tell(self._worker.give_back, (lease, wanted))
        self._done(lease)

    def _done(self, lease: Lease) -> None:
        self._out.pop(lease.key, None)
        if self._closing and not self._out:
            self._drained.set()

    def _refuse_waiters(self, error: BaseException) -> int:
        refused = 0
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(error)
                refused += 1
        return refused

    def _finish_up(self, error: BaseException | None) -> None:
        """In the loop's thread, last: the frontier is closed. Nobody may wait for it any more."""
        self._ended, self._error = True, error
        self._closing = True
        left = error or FrontierClosed("this scheduler is closed")
        with suppress(Empty):
            while True:
                _, _, future = self._worker.inbox.get_nowait()
                if future is not None and not future.done():
                    future.set_exception(left)
        self._refuse_waiters(left)
        self._drained.set()
        self._end.set()


def _seconds(value: float, name: str) -> float:
    value = float(value)
    if not 0 <= value < inf:
        raise ValueError(f"{name} is a number of seconds, not {value!r}")
    return value
