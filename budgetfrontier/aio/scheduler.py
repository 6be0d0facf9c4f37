"""The Scheduler, whose methods the tasks of an event loop call."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict, deque
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

from budgetfrontier.aio.frontier_thread import Failure, FrontierThread, Reply
from budgetfrontier.aio.own_frontier import OwnFrontier
from budgetfrontier.aio.shared_frontier import SharedFrontier, connector, name_of
from budgetfrontier.aio.turn_batching import Future, TurnBatcher, futures_of
from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.core import protocol
from budgetfrontier.core.model import Admission, CrawlUri, Finish, Lease, Outcome, RunEnd, Summary, Tally
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.engine import arguments
from budgetfrontier.engine.arguments import size as _size
from budgetfrontier.engine.arguments import status as _status
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.runs import this_program
from budgetfrontier.errors import FrontierClosed, WrongThread, WrongType
from budgetfrontier.leasing import AS_WRITTEN, open_frontier
from budgetfrontier.rules.run_history import end_of
from budgetfrontier.settings import Settings, as_settings
from budgetfrontier.settings.plugins import is_async

CHUNK = 200  # URIs of `add_many` in one message; a waiting `get` is delayed by one such message at most

MOST_OUT = 10_000  # leases handed out, from which on those are forgotten that expired a day ago

AHEAD_FOR = 5.0
"""Seconds for which a request that was leased ahead is kept for the next `get`."""

CANONICALIZATION = msgspec.structs.replace(AS_WRITTEN, strip_userinfo=True)
"""As in qcrawl: URLs that differ only in user names or in the order of query arguments are duplicates."""

log = logging.getLogger("budgetfrontier.aio")

_T = TypeVar("_T")
_SUCCESS = Outcome.SUCCESS
_NO_URIS: tuple[CrawlUri, ...] = ()


class Scheduler:
    """A crawl queue for the tasks of one event loop: budgeted, fair between hosts, and durable across crashes.

    Use it with `async with`, or call `open` and `close`. A request is a `Lease`: `get` it, fetch `request.uri.url`, and
    report the outcome with `task_done`. Requests that were not done when a process died are handed out again by the
    next.

    `path` is the folder of the frontier, or ":memory:". Without `settings` those stored in the frontier apply; a new
    frontier has no politeness delays then and hands out up to eight URIs of a host at a time. URLs are deduplicated as
    written, except for user names and the order of query arguments, unless `canonicalization` in `settings`, or the
    settings that the frontier was created with, say otherwise. `maxsize` limits the URIs queued, not counting those
    handed out; 0: no limit. When the frontier is full, `add` waits for room or, with `when_full="drop"`, returns FULL.
    A request that is not done within `ttl` seconds (None: the setting, 300) is handed out again. Closing waits up to
    `grace` seconds for requests that are handed out. `hooks` are called in the frontier's thread. Raises ValueError or
    TypeError for wrong arguments.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Settings | dict[str, Any] | None = None,
        *,
        maxsize: int = 0,
        when_full: Literal["wait", "drop"] = "wait",
        ttl: float | None = None,
        grace: float = 2.0,
        hooks: Sequence[object] = (),
        clock: Clock | None = None,
    ) -> None:
        arguments.folder(path)
        folder, hooks = os.fspath(path), arguments.hooks(hooks)
        clock = arguments.clock(clock) or WallClock()
        lease_ttl = None if ttl is None else arguments.seconds(ttl, "ttl")
        open_it = partial(
            open_frontier,
            folder,
            as_settings(settings),
            hooks=hooks,
            clock=clock,
            canonicalization=CANONICALIZATION,
            program=f"{this_program()} (asyncio)",
        )
        self._set_up(
            folder, lambda: OwnFrontier(open_it(), lease_ttl), maxsize=maxsize, when_full=when_full, grace=grace,
            clock=clock,
        )  # fmt: skip

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        crawl: str = "DEFAULT",
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = protocol.RETRY_FOR,
        maxsize: int = 0,
        when_full: Literal["wait", "drop"] = "wait",
        ttl: float | None = None,
        grace: float = 2.0,
        ahead: int = 8,
    ) -> Self:
        """Return a scheduler on the frontier that `budgetfrontier serve` has at `address`, shared with other processes.

        With kafka://HOST:PORT/CRAWL, it is a crawl in partitions, which its workers have (the extra "kafka"). Needs the
        extra "grpc". `open`, or `async with`, connects; the server's settings apply, and its frontier is
        created if need be. `crawl`, `token`, `tls` and `retry_for` are those of `RemoteFrontier`, the other arguments
        those of a Scheduler. `maxsize`, `stats`, `qsize`, `idle` and `join` are about the URIs of all processes.

        Up to `ahead` requests are leased before a task waits for them, so that `get` need not wait for the network.
        Those that no task takes within AHEAD_FOR seconds, or a tenth of `ttl` if that is shorter, are given back, and
        so are all at `close`. With 0, a request is leased for each waiting `get`.
        """
        ahead = arguments.whole(ahead, "ahead")
        if ahead < 0:
            raise ValueError("ahead is a number of requests; 0 for none")
        lease_ttl = None if ttl is None else arguments.seconds(ttl, "ttl")
        connect = connector(address, crawl=crawl, token=token, tls=tls, retry_for=retry_for)
        self = cls.__new__(cls)
        self._set_up(
            name_of(address, crawl),
            lambda: SharedFrontier(connect(), lease_ttl, self._worker.wake),
            maxsize=maxsize, when_full=when_full, grace=grace, clock=WallClock(),
        )  # fmt: skip
        self._is_shared = True
        self._most_ahead = ahead
        self._ahead_for = AHEAD_FOR if lease_ttl is None else min(AHEAD_FOR, lease_ttl / 10)
        return self

    def _set_up(
        self,
        name: str,
        open_source: Callable[[], OwnFrontier | SharedFrontier],
        *,
        maxsize: int,
        when_full: str,
        grace: float,
        clock: Clock,
    ) -> None:
        maxsize = arguments.whole(maxsize, "maxsize")
        if maxsize < 0:
            raise ValueError("maxsize is a number of URIs; 0 for no limit")
        if when_full not in ("wait", "drop"):
            raise ValueError(f'when_full is "wait" or "drop"{did_you_mean(when_full, ("wait", "drop"))}')
        self._name = name
        self._grace = arguments.seconds(grace, "grace")
        self._worker = FrontierThread(
            open_source,
            deliver=self._deliver,
            end=self._on_end,
            flush=self._flush,
            maxsize=maxsize,
            wait=when_full == "wait",
            clock=clock,
        )
        self._outbox = TurnBatcher(self._worker.inbox)
        self._is_shared = False
        self._most_ahead = 0
        self._ahead_for = AHEAD_FOR
        self._ahead: deque[tuple[Lease, float]] = deque()
        """Leases that no call has taken, oldest first, each with the time of the loop until which it may stay."""
        self._looks_ahead = False
        """Whether leases are wanted ahead: since a `get` call, until one was not taken in time."""
        self._asked = 0
        """Leases that the worker was asked for, and that have not come."""
        self._thread: Thread | None = None
        self._waiters: OrderedDict[Future, asyncio.Task[Any] | None] = OrderedDict()
        """The futures that `get` calls wait for, in order of the calls, each with its task."""
        self._handed_out: dict[int, tuple[Lease, asyncio.Task[Any] | None]] = {}
        """Leases handed out and not done, by id, oldest first, each with its task.

        A lease that has expired stays until its task is done with it, though its URI may be out again.
        """
        self._most_out = MOST_OUT
        self._closing = False
        self._stopped = False
        """Whether the thread has been told to close the frontier: it reads no message after that."""
        self._ended = False
        self._error: BaseException | None = None

    async def open(self) -> Self:
        """Open the frontier, or create it. Raises what `Frontier.open` raises."""
        if self._thread is not None:
            raise FrontierClosed("a Scheduler is opened once; make another")
        self._loop = asyncio.get_running_loop()
        self._outbox.start(self._loop)
        self._drained = asyncio.Event()
        self._thread_ended = asyncio.Event()
        self._thread = Thread(target=self._worker.run, args=(self._loop,), name=f"frontier {self._name}", daemon=True)
        self._thread.start()
        try:
            await self._request(self._worker.is_over, None)
        except BaseException:
            self._stop()
            if not self._is_shared:  # there nothing is open, and connecting may take a while
                self._thread.join()  # as in `close`
            raise
        return self

    # -- adding

    async def add(self, uri: str | CrawlUri) -> Admission:
        """Add a URI, once per canonical form. Return ADDED, DUPLICATE, INVALID or FULL.

        When the frontier is full, the call waits for room, or returns FULL with `when_full="drop"` and while closing.
        Of two URIs of a host the one with the higher `priority` is handed out first, then the older one. A cancelled
        call may or may not have added the URI. Raises FrontierClosed. Each call waits for a reply of the frontier's
        thread, which calls of many tasks share; from a single task, `add_many` is faster.
        """
        arguments.uri(uri)
        if self._ended or self._thread is None:
            self._check()
        self._check_loop()
        admission: Admission = await self._outbox.add(uri)
        if admission is Admission.FULL:
            log.warning("queue full, dropping request: %s", uri.url if isinstance(uri, CrawlUri) else uri)
        return admission

    async def add_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Add a batch, at a fraction of the cost per URI.

        URIs without room are counted in `full`; it never waits for room.
        """
        arguments.several(uris)
        tally = Tally()
        remaining = iter(uris)
        while chunk := list(islice(remaining, CHUNK)):
            tally.add(await self._request(self._worker.add_many, chunk))
        return tally

    # -- handing out

    async def get(self) -> Lease:
        """Wait for the next request and return it; `request.uri` is the URI that was added.

        Calls are served in their order. A cancelled call loses nothing: a request on its way to it goes back to its
        queue and costs nothing. Raises FrontierClosed once the scheduler is closing; what is queued stays for the next
        run.
        """
        if self._closing or self._thread is None:
            self._check(closing=True)
        self._check_loop()
        request: Lease
        task = asyncio.current_task(self._loop)
        if self._ahead and not self._waiters:
            request, _ = self._ahead.popleft()
            self._hand_out(request, task)
            self._looks_ahead = True
            self._ask()
            return request
        waiter: Future = self._loop.create_future()
        self._waiters[waiter] = task
        self._looks_ahead = True
        self._ask()
        try:
            request = await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.pop(waiter, None)
                self._ask()
            elif waiter.exception() is None:
                self._give_back(waiter.result())
            raise
        return request

    def task_done(
        self,
        request: Lease | None = None,
        outcome: Outcome = Outcome.SUCCESS,
        *,
        fetch_seconds: float | None = None,
        crawl_delay: float | None = None,
        discovered: Iterable[str | CrawlUri] = _NO_URIS,
        reason: str = "",
        delay: float | None = None,
        retire_queue: bool = False,
        size: int = 0,
        status: int = 0,
        novel: bool | None = None,
        address: str = "",
        digest: bytes = b"",
    ) -> None:
        """Report the outcome of a request, once for each `get`; the options are those of `Frontier.finish`.

        Without `request` it is the oldest one handed out to the calling task. RETRY and DEFERRED bring the request
        back. Never waits: the outcome is durable with the next commit. Raises ValueError for a request that is not
        handed out; FrontierClosed after the end, and when `close` no longer waits for requests: this one is handed out
        again in the next run. A request that took longer than its `ttl` is logged, and handed out again.
        """
        if self._stopped or self._ended or self._thread is None:
            self._check(stopped=True)
        if request is None:
            task = asyncio.current_task()
            request = next((lease for lease, holder in self._handed_out.values() if holder is task), None)
        elif request.__class__ is not Lease:
            arguments.lease(request, "task_done")
        if request is None or request.id not in self._handed_out:
            raise ValueError("task_done() called too many times: no such request is out")
        if discovered is not _NO_URIS:
            arguments.several(discovered)
        waits = fetch_seconds is not None or crawl_delay is not None or delay is not None
        if outcome is _SUCCESS and not (
            waits
            or discovered
            or reason != ""
            or retire_queue is not False
            or size != 0
            or status != 0
            or novel is not None
            or address != ""
            or digest != b""
        ):
            self._outbox.end(request)
        else:
            found: list[str | CrawlUri] = list(discovered) if discovered else []
            finish = Finish(
                request,
                arguments.outcome(outcome),
                fetch_seconds=None if fetch_seconds is None else arguments.seconds(fetch_seconds, "fetch_seconds"),
                crawl_delay=None if crawl_delay is None else arguments.seconds(crawl_delay, "crawl_delay"),
                discovered=found,
                reason=reason if isinstance(reason, str) else arguments.reason(reason),  # type: ignore[redundant-expr]
                delay=None if delay is None else arguments.seconds(delay, "delay"),
                retire_queue=arguments.flag(retire_queue, "retire_queue"),
                size=_size(size),
                status=_status(status),
                novel=arguments.novel(novel),
                address=arguments.address(address),
                digest=arguments.data(digest, "digest"),
            )
            self._outbox.end(finish, len(found))
        del self._handed_out[request.id]
        if self._closing:
            self._note_drained()

    def __aiter__(self) -> Self:
        """Iterate over requests until the scheduler is closing: `async for request in scheduler`."""
        return self

    async def __anext__(self) -> Lease:
        try:
            return await self.get()
        except FrontierClosed:
            if self._error:
                raise
            raise StopAsyncIteration from None

    # -- inspecting and steering

    async def stats(self) -> dict[str, int]:
        """Return counters: queued, pending (handed out), future, dead, seen, waiting_consumers, closed (0 or 1)."""
        total, waiting = await self._totals()
        pending = max(total.in_process - len(self._ahead), 0)
        return {
            "queued": waiting + total.in_process - pending,
            "pending": pending,
            "future": total.future,
            "dead": total.dead,
            "seen": total.seen,
            "waiting_consumers": len(self._waiters),
            "closed": int(self._closing),
        }

    async def qsize(self) -> int:
        """Return how many URIs are queued, without those handed out and those of RETIRED or INELIGIBLE queues."""
        return (await self.stats())["queued"]

    async def idle(self) -> bool:
        """Return whether nothing is queued, handed out or scheduled for later: what `join` waits for."""
        return bool(await self._request(self._worker.is_over, None))

    async def call(self, function: Callable[[Frontier], _T]) -> _T:
        """Run a function on the frontier in its thread, and return its result: for reports, adjustments, renewals.

        Nothing is handed out meanwhile. To keep a request longer: `call(lambda f: f.renew(request, 600))`.
        """
        given: object = function
        if not callable(given) or is_async(given):
            raise WrongType(f"call takes a function that takes the frontier, without `async`, not {given!r:.60}")
        reply: _T = await self._request(self._worker.call, function)
        return reply

    # -- closing

    async def join(self) -> None:
        """Wait until nothing is queued, handed out or scheduled for later, or until the scheduler has closed.

        URIs in RETIRED and INELIGIBLE queues do not count. While an operator has paused the crawl, the call keeps
        waiting.
        """
        if not self._ended:
            await self._request(self._worker.join, None)
        elif self._error:
            raise self._error

    async def close(self, *, grace: float | None = None) -> None:
        """Stop handing out, wait up to `grace` seconds (None: as set) for requests handed out, and close the frontier.

        Waiting calls of `get` raise FrontierClosed, those of `add` return FULL. During the grace period `add` and
        `task_done` still work; requests that are not done by its end are given back, do not count as tried, and are the
        first to be handed out in the next run. Everything is on disk when this returns. A second call waits for the
        first. A cancelled call closes at once. Raises the error that ended the frontier earlier, if any.
        """
        grace = self._grace if grace is None else arguments.seconds(grace, "grace")
        if self._thread is None:
            self._closing = self._ended = True
            return
        self._check_loop()
        if not self._closing:
            self._closing = True
            self._refuse_waiters(FrontierClosed("the scheduler is closing"))
            self._outbox.call(self._worker.halt, None)
            self._give_back_ahead(inf)
        try:
            if self._handed_out and grace > 0 and not self._ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._drained.wait()
            self._stop()
            await self._thread_ended.wait()
        except asyncio.CancelledError:
            self._stop()
            self._thread.join()  # blocks for one commit: a cancelled call must not leave the frontier open
            raise
        self._thread.join()
        if self._error:
            raise self._error

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end, reason = end_of(error)
        self._worker.ending = end or RunEnd.EXIT, reason
        try:
            await self.close(grace=None if error is None else 0.0)
        except Exception:
            if error is None:  # otherwise the error of the block is raised, often the same one
                raise

    def __repr__(self) -> str:
        state = "closed" if self._ended else "closing" if self._closing else "open" if self._thread else "new"
        return f"<Scheduler {self._name} {state}, {len(self._handed_out)} out, {len(self._waiters)} waiting>"

    # -- internals

    def _check(self, *, closing: bool = False, stopped: bool = False) -> None:
        if self._thread is None or self._ended or (closing and self._closing) or (stopped and self._stopped):
            if self._error:
                raise self._error
            raise FrontierClosed(f"this scheduler is {'closed' if self._closing else 'not open: use `async with`'}")

    def _check_loop(self) -> None:
        """Raise WrongThread in another event loop, before the call has any effect: its result would be lost."""
        if asyncio.get_running_loop() is not self._loop:
            raise WrongThread(
                "this scheduler belongs to the event loop in which it was opened; call it there, or make another"
            )

    def _stop(self) -> None:
        self._stopped = True
        self._outbox.call(self._worker.stop, None)
        self._worker.hurry()

    def _request(self, function: Callable[[Any], object], argument: object) -> Future:
        self._check()
        self._check_loop()
        future = self._loop.create_future()
        self._outbox.call(function, argument, future)
        return future

    async def _totals(self) -> tuple[Summary, int]:
        """Return the counters, and how many URIs are queued and not leased."""
        if self._ended and (last := self._worker.totals):
            return last, max(last.queued - last.in_process, 0)
        found: tuple[Summary, int] = await self._request(
            self._worker.call, lambda frontier: (frontier.summary(), frontier.waiting())
        )
        return found

    def _deliver(self, replies: list[Reply], leases: list[Lease]) -> None:
        """Resolve futures with their replies, and those of the longest waiting `get` calls with leases.

        A reply for all of these calls is for those that are left. In the loop's thread.
        """
        failure: Failure | None = None
        waiters = self._waiters
        for future, reply in replies:
            if future is None:
                failure = reply
            elif isinstance(future, list):
                for each, admission in zip(future, reply, strict=True):
                    if not each.done():
                        each.set_result(admission)
            elif not future.done():
                if isinstance(reply, Failure):
                    future.set_exception(reply.error)
                else:
                    future.set_result(reply)
        self._asked -= len(leases)
        for lease in leases:
            while waiters:
                waiter, task = waiters.popitem(last=False)
                if not waiter.done():
                    self._hand_out(lease, task)
                    waiter.set_result(lease)
                    break
            else:
                self._keep_or_give_back(lease)
        if failure is not None:
            self._refuse_waiters(failure.error)
            self._looks_ahead = False
        if leases or failure is not None:
            self._ask()

    def _hand_out(self, lease: Lease, task: asyncio.Task[Any] | None) -> None:
        """Note who has a lease. Those that nobody reports, as their tasks have failed, are forgotten now and then."""
        out = self._handed_out
        out[lease.id] = lease, task
        if len(out) > self._most_out:
            for old, _ in list(out.values()):
                if old.expires < lease.expires - 86_400.0:
                    del out[old.id]
            self._most_out = max(MOST_OUT, 2 * len(out))

    def _ask(self) -> None:
        """Send the worker the number of leases wanted: for waiting calls, and ahead of later ones."""
        ahead = self._most_ahead - len(self._ahead) if self._looks_ahead else 0
        change = len(self._waiters) + ahead - self._asked
        if change and not self._closing:
            self._asked += change
            self._outbox.want(change)

    def _keep_or_give_back(self, lease: Lease) -> None:
        """Keep a lease for a call to come, or give it back: those of a call that was cancelled, for example."""
        if self._closing or len(self._ahead) >= self._most_ahead:
            self._give_back(lease)
            return
        until = self._loop.time() + self._ahead_for
        self._ahead.append((lease, until))
        if len(self._ahead) == 1:
            self._loop.call_at(until, self._look_ahead)

    def _look_ahead(self) -> None:
        """Give back leases that were not taken in time, and lease none ahead until the next call."""
        now = self._loop.time()
        if self._ahead and self._ahead[0][1] <= now:
            self._looks_ahead = False
            self._give_back_ahead(now)
            self._ask()
        if self._ahead:
            self._loop.call_at(self._ahead[0][1], self._look_ahead)

    def _give_back_ahead(self, until: float) -> None:
        leases = []
        while self._ahead and self._ahead[0][1] <= until:
            leases.append(self._ahead.popleft()[0])
        if leases:
            self._outbox.call(self._worker.give_back, leases)

    def _give_back(self, lease: Lease) -> None:
        """Give back a lease that no `get` call took."""
        self._outbox.call(self._worker.give_back, [lease])
        self._handed_out.pop(lease.id, None)
        self._note_drained()

    def _note_drained(self) -> None:
        if self._closing and not self._handed_out:
            self._drained.set()

    def _refuse_waiters(self, error: BaseException) -> None:
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(error)

    def _flush(self) -> None:
        """Send the rest of the outbox. The frontier's thread calls this once the loop is closed."""
        self._outbox.flush()

    def _on_end(self, error: BaseException | None) -> None:
        """Refuse everything that still waits: the frontier is closed. The last call, in the loop's thread."""
        self._ended, self._error = True, error
        self._closing = True
        reason_closed = error or FrontierClosed("this scheduler is closed")
        self._outbox.flush()
        with suppress(Empty):
            while True:
                for future in futures_of(self._worker.inbox.get_nowait()):
                    if not future.done():
                        future.set_exception(reason_closed)
        self._refuse_waiters(reason_closed)
        self._drained.set()
        self._thread_ended.set()
