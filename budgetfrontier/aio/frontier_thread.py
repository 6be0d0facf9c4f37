"""The thread that runs the frontier of a Scheduler: it applies messages, leases URIs, and commits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from budgetfrontier.aio.own_frontier import OwnFrontier
from budgetfrontier.aio.shared_frontier import SharedFrontier
from budgetfrontier.aio.turn_batching import BATCH, Future, TurnMessage, futures_of
from budgetfrontier.clock import Clock
from budgetfrontier.core.model import Admission, CrawlState, CrawlUri, Finish, Lease, RunEnd, Summary, Tally
from budgetfrontier.engine.api import SyncFrontier
from budgetfrontier.engine.bulk_finish import end_leases, is_cut_off
from budgetfrontier.errors import LeaseExpired, PolicyError
from budgetfrontier.rules import crawl_states

log = logging.getLogger("budgetfrontier.aio")

Reply = tuple[Future | list[Future] | None, Any]
"""A future and the value that resolves it; or futures and a value for each. None: the futures of all `get` calls that
still wait once the leases of the round are handed out."""

FAILED = "a message to the frontier failed; the crawl goes on"

_LATER = object()  # the reply follows later

_NOTHING = TurnMessage(0, [], [], [], None, 0)


class Failure(NamedTuple):
    """A reply that is an exception to raise."""

    error: BaseException


class FrontierThread:
    """A frontier and the loop of its thread. Other threads use only `inbox`, `wake`, `hurry` and, at last, `totals`.

    In each round the messages are applied in order, except that URIs to add are collected and admitted last, in one
    batch. As many URIs are leased as are wanted. `deliver(replies, leases)`, once for each round, and `end(error)` are
    called in the event loop's thread. `flush()` fills the inbox with the last requests, once that loop is closed.
    `open_source` opens the frontier.
    """

    def __init__(
        self,
        open_source: Callable[[], OwnFrontier | SharedFrontier],
        *,
        deliver: Callable[[list[Reply], list[Lease]], None],
        end: Callable[[BaseException | None], None],
        flush: Callable[[], None],
        maxsize: int,
        wait: bool,
        clock: Clock,
    ) -> None:
        self.inbox: SimpleQueue[TurnMessage] = SimpleQueue()
        self.totals: Summary | None = None
        """The counters after the last round; None before."""
        self._open, self._deliver, self._end, self._flush = open_source, deliver, end, flush
        self._maxsize, self._wait = maxsize, wait
        self._clock = clock
        self._source: OwnFrontier | SharedFrontier | None = None
        self._frontier: SyncFrontier
        self._batch: list[TurnMessage] = []
        self._reply_to: Future | None = None
        """The future of the message being applied; None if nobody waits for a reply."""
        self._replies: list[Reply] = []
        self._leases: list[Lease] = []
        self._uris: list[str | CrawlUri] = []
        """URIs to admit in this round."""
        self._admissions: list[Future] = []
        """The future of each of those."""
        self._parked: list[tuple[str | CrawlUri, Future]] = []
        self._joins: list[Future] = []
        self._accepting = True
        self._running = True
        self.ending = RunEnd.EXIT, ""
        """How the run ends once `stop` was called, and why, for the history of runs."""

    def wake(self) -> None:
        """Begin a round. May be called in any thread."""
        self.inbox.put(_NOTHING)

    def hurry(self) -> None:
        """Let calls that wait for a server give up soon. May be called in any thread."""
        if self._source is not None:
            self._source.hurry()

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the frontier, run rounds until `stop`, and close it. On an error all waiting futures get it."""
        self._loop = loop
        error: BaseException | None = None
        try:
            with self._open() as source:
                self._source, self._frontier = source, source.frontier
                self._tick = time.monotonic() + source.interval
                while self._running:
                    self._serve(source)
                if self._loop.is_closed():
                    self._end_rest()
                self.totals = source.close(*self.ending)
        except BaseException as e:
            error = e
        waiting = [*self._joins, *(future for _, future in self._parked)]
        for message in self._batch:
            waiting += futures_of(message)
        self._replies += [(future, Failure(error) if error else None) for future in waiting]
        self._post()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _serve(self, source: OwnFrontier | SharedFrontier) -> None:
        """Run one round: apply messages, lease URIs, resolve waiting calls, commit if it is time."""
        self._batch = self._receive(source.ready)
        for message in self._batch:
            source.want(message.wanted)
            if message.endings:
                self._end_leases(message.endings)
            if message.uris:
                self._uris += message.uris
                self._admissions += message.admissions
            if message.call:
                self._apply(*message.call)
        if self._uris:
            self._admit(source)
        self._batch = []
        self._hand_out(source)
        ticks = time.monotonic() >= self._tick
        if ticks or not source.looks_at_ticks_only:
            while self._parked and self._unpark(source):
                self._hand_out(source)
            if self._joins and self.is_over():
                self._replies += [(future, None) for future in self._joins]
                self._joins = []
        self._post()
        if ticks:
            source.tick()
            self._tick = time.monotonic() + source.interval
            self._running &= not self._loop.is_closed()

    def _receive(self, ready: float | None) -> list[TurnMessage]:
        """Return messages; none when URIs are ready, after so many seconds, or it is time to commit."""
        timeout = self._tick - time.monotonic()
        if ready is not None:
            timeout = min(timeout, ready)
        messages: list[TurnMessage] = []
        with suppress(Empty):
            message = self.inbox.get(timeout=max(timeout, 0.0))
            messages.append(message)
            room = BATCH - message.size
            while room > 0:
                message = self.inbox.get_nowait()
                messages.append(message)
                room -= message.size + 1
        return messages

    def _apply(self, function: Callable[[Any], object], argument: object, reply_to: Future | None) -> None:
        reply: object
        self._reply_to = reply_to
        try:
            reply = function(argument)
        except Exception as e:
            if is_cut_off(self._frontier, e):
                raise
            reply = Failure(e)
            if reply_to is None:
                log.exception(FAILED)
        if reply_to is not None and reply is not _LATER:
            self._replies.append((reply_to, reply))

    def _end_leases(self, endings: list[Lease | Finish]) -> None:
        """End leases, in order; log those that have expired, and those that cannot be ended."""
        for _, error in end_leases(self._frontier, endings, self._clock.time()):
            if isinstance(error, LeaseExpired):
                log.warning("%s", error)
            else:
                log.error(FAILED, exc_info=error)

    def _end_rest(self) -> None:
        """End the leases that tasks ended before their loop was closed. Nobody waits for anything else."""
        self._flush()
        with suppress(Empty):
            while True:
                self._end_leases(self.inbox.get_nowait().endings)

    def _post(self) -> None:
        if self._replies or self._leases:
            try:
                self._loop.call_soon_threadsafe(self._deliver, self._replies, self._leases)
            except RuntimeError:  # the loop was closed: no task is left
                self._running = False
            self._replies, self._leases = [], []

    def _admit(self, source: OwnFrontier | SharedFrontier) -> None:
        """Admit the URIs of this round in one batch; park those that find no room if `add` is to wait."""
        uris, futures = self._uris, self._admissions
        self._uris, self._admissions = [], []
        results = source.admit_each(uris, self._maxsize)
        if Admission.FULL not in results and set(map(type, results)) == {Admission}:
            self._replies.append((futures, results))
            return
        for uri, future, result in zip(uris, futures, results, strict=True):
            if result is Admission.FULL and self._wait and self._accepting:
                self._parked.append((uri, future))
            else:
                self._replies.append((future, Failure(result) if isinstance(result, PolicyError) else result))

    def _hand_out(self, source: OwnFrontier | SharedFrontier) -> None:
        """Take the URIs that are wanted."""
        if self._accepting:
            try:
                source.take(self._leases)
            except PolicyError as e:
                self._replies.append((None, Failure(e)))

    def _unpark(self, source: OwnFrontier | SharedFrontier) -> int:
        """Try parked URIs again, in order; return how many were settled. One full queue does not block the others."""
        parked = [each for each in self._parked if not each[1].done()]  # without cancelled calls
        self._parked = []
        if not parked:
            return 0
        results = source.admit_each([uri for uri, _ in parked], self._maxsize, again=True)
        for each, result in zip(parked, results, strict=True):
            if result is Admission.FULL:
                self._parked.append(each)
            else:
                self._replies.append((each[1], Failure(result) if isinstance(result, PolicyError) else result))
        return len(parked) - len(self._parked)

    # -- calls

    def add_many(self, uris: list[str | CrawlUri]) -> Tally:
        """Admit a batch; count and drop the URIs that find no room."""
        assert self._source is not None
        return self._source.admit_many(uris, self._maxsize)

    def give_back(self, leases: list[Lease]) -> None:
        """Give back leases that no call took, as if they had never been given."""
        self._frontier.give_back(leases)

    def join(self, _: object) -> object:
        """Reply once the crawl is over, or when the frontier closes."""
        if self._reply_to is not None:
            self._joins.append(self._reply_to)
        return _LATER

    def is_over(self, _: object = None) -> bool:
        """Return whether the crawl is over: finished, paused on finishing, or terminated with nothing handed out."""
        total = self._frontier.summary()
        if total.state is CrawlState.PAUSED:
            return total.pause_reason == crawl_states.FINISH
        if total.state is CrawlState.TERMINATED:
            return not total.in_process
        return total.state in (CrawlState.NEW, CrawlState.FINISHED)

    def call(self, function: Callable[[Any], object]) -> object:
        """Run a function on the frontier, and reply with its result."""
        return function(self._frontier)

    def halt(self, _: object) -> None:
        """Stop leasing, and reply FULL to all calls that wait for room."""
        assert self._source is not None
        self._source.halt()
        self._accepting = False
        self._replies += [(future, Admission.FULL) for _, future in self._parked]
        self._parked.clear()

    def stop(self, _: object) -> None:
        """Close the frontier after this round."""
        self._running = False
