"""The thread that runs the frontier of a Scheduler: it applies messages, leases URIs, and commits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from budgetfrontier.aio.outbox import BATCH, Future, Message, futures_of
from budgetfrontier.clock import Clock
from budgetfrontier.endings import end_leases, is_closed
from budgetfrontier.engine.batches import parts
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import LeaseExpired, PolicyError
from budgetfrontier.model import Admission, CrawlState, CrawlUri, Finish, Lease, Outcome, RunEnd, Summary, Tally
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.admission_limits import MAXSIZE

MIN_COMMIT_INTERVAL = 0.05  # seconds between two commits of the worker; a frontier may also commit at each call

log = logging.getLogger("budgetfrontier.aio")

Reply = tuple[Future | list[Future] | None, Any]
"""A future and the value that resolves it; or futures and a value for each. None: the futures of all `get` calls that
still wait once the leases of the round are handed out."""

FAILED = "a message to the frontier failed; the crawl goes on"

_LATER = object()  # the reply follows later


class Failure(NamedTuple):
    """A reply that is an exception to raise."""

    error: BaseException


class Worker:
    """A frontier and the loop of its thread. Other threads use only `inbox` and, after the end, `totals`.

    In each round the messages are applied in order, except that URIs to add are collected and admitted last, in one
    batch. A URI is leased only when a `get` call waits for it, never ahead. `deliver(replies, leases)`, once for each
    round, and `end(error)` are called in the event loop's thread. `flush()` fills the inbox with what is left to send,
    once that loop is closed.
    """

    def __init__(
        self,
        open_frontier: Callable[[], Frontier],
        *,
        deliver: Callable[[list[Reply], list[Lease]], None],
        end: Callable[[BaseException | None], None],
        flush: Callable[[], None],
        maxsize: int,
        wait: bool,
        ttl: float | None,
        clock: Clock,
    ) -> None:
        self.inbox: SimpleQueue[Message] = SimpleQueue()
        self.totals: Summary | None = None
        """The counters after the last round; None before."""
        self._open, self._deliver, self._end, self._flush = open_frontier, deliver, end, flush
        self._maxsize, self._wait, self._ttl = maxsize, wait, ttl
        self._clock = clock
        self._frontier: Frontier
        self._batch: list[Message] = []
        self._reply_to: Future | None = None
        """The future of the message being applied; None if nobody waits for a reply."""
        self._replies: list[Reply] = []
        self._leases: list[Lease] = []
        self._wanted = 0
        """Outstanding `get` calls. Briefly negative when a cancellation crosses a delivery."""
        self._uris: list[str | CrawlUri] = []
        """URIs to admit in this round."""
        self._admissions: list[Future] = []
        """The future of each of those."""
        self._parked: deque[tuple[str | CrawlUri, Future]] = deque()
        self._joins: list[Future] = []
        self._ready: float | None = None
        """Seconds to wait before leasing again for waiting calls; None: until a message comes."""
        self._accepting = True
        self._running = True
        self.ending = RunEnd.EXIT, ""
        """How the run ends once `stop` was called, and why, for the history of runs."""

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the frontier, run rounds until `stop`, and close it. On an error all waiting futures get it."""
        self._loop = loop
        error: BaseException | None = None
        try:
            with self._open() as self._frontier:
                self._interval = max(self._frontier.settings.frontier.commit_interval, MIN_COMMIT_INTERVAL)
                self._tick = time.monotonic() + self._interval
                while self._running:
                    self._serve()
                if self._loop.is_closed():
                    self._end_rest()
                self.totals = self._frontier.summary()
                self.totals.in_process = 0  # given back by closing
                end, reason = self.ending
                self._frontier.close(end=end, reason=reason)
        except BaseException as e:
            error = e
        waiting = [*self._joins, *(future for _, future in self._parked)]
        for message in self._batch:
            waiting += futures_of(message)
        self._replies += [(future, Failure(error) if error else None) for future in waiting]
        self._post()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _serve(self) -> None:
        """Run one round: apply messages, lease URIs, resolve waiting calls, commit if it is time."""
        self._batch = self._receive()
        for message in self._batch:
            self._wanted += message.wanted
            if message.endings:
                self._end_leases(message.endings)
            if message.uris:
                self._uris += message.uris
                self._admissions += message.admissions
            if message.call:
                self._apply(*message.call)
        if self._uris:
            self._admit()
        self._batch = []
        self._hand_out()
        while self._parked and self._unpark():
            self._hand_out()
        if self._joins and self.is_over():
            self._replies += [(future, None) for future in self._joins]
            self._joins = []
        self._post()
        if time.monotonic() >= self._tick:
            self._frontier.commit()
            self._tick = time.monotonic() + self._interval
            self._running &= not self._loop.is_closed()

    def _receive(self) -> list[Message]:
        timeout = self._tick - time.monotonic()
        if self._ready is not None:
            timeout = min(timeout, self._ready)
        messages: list[Message] = []
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
            if is_closed(self._frontier):
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

    def _admit(self) -> None:
        """Admit the URIs of this round in one batch; park those that find no room if `add` is to wait."""
        uris, futures = self._uris, self._admissions
        self._uris, self._admissions = [], []
        admissions: Sequence[Admission | Failure]
        if self._maxsize:
            admissions = [Admission.FULL if self._is_full() else self._schedule(uri) for uri in uris]
        else:
            admissions = self._schedule_each(uris)
            if Admission.FULL not in admissions and set(map(type, admissions)) == {Admission}:
                self._replies.append((futures, admissions))
                return
        for uri, future, admission in zip(uris, futures, admissions, strict=True):
            if admission is Admission.FULL and self._wait and self._accepting:
                self._parked.append((uri, future))
            else:
                self._replies.append((future, admission))

    def _schedule_each(self, uris: list[str | CrawlUri]) -> list[Admission | Failure]:
        admissions: list[Admission | Failure] = []
        for part in parts(uris):  # each is one operation: if a policy fails for one of its URIs, none is admitted
            try:
                admissions += self._frontier.schedule_each(part)
            except PolicyError:  # raised for one URI; the others must not fail with it
                admissions += [self._schedule(uri) for uri in part]
        return admissions

    def _schedule(self, uri: str | CrawlUri) -> Admission | Failure:
        try:
            return self._frontier.schedule(uri)
        except PolicyError as e:
            return Failure(e)

    def _has_room(self, uri: str | CrawlUri) -> bool:
        """Tell whether it is worth another try to admit a URI; a vain one would be counted as a refusal."""
        try:
            return self._frontier.has_room(uri)
        except PolicyError:
            return True  # `schedule` says so

    def _hand_out(self) -> None:
        """Lease as many URIs as `get` calls wait for; if there are too few, note when the next is ready."""
        self._ready = None
        while self._wanted > 0 and self._accepting:
            self._ready = self._frontier.next_ready_in()
            if self._ready != 0.0:  # do not call `lease` for nothing: an empty result commits
                return
            try:
                leases = self._frontier.lease(min(self._wanted, BATCH), ttl=self._ttl)
            except PolicyError as e:
                self._ready = None
                self._replies.append((None, Failure(e)))
                return
            if not leases:  # thousands of queues change state first: read messages in between
                return
            self._leases += leases
            self._wanted -= len(leases)
            self._ready = None

    def _unpark(self) -> int:
        """Try parked URIs again, in order; return how many were settled. One full queue does not block the others."""
        settled = 0
        self._parked = deque(each for each in self._parked if not each[1].done())  # without cancelled calls
        for _ in range(len(self._parked)):
            if self._is_full():
                break
            uri, future = self._parked.popleft()
            admission = self._schedule(uri) if self._has_room(uri) else Admission.FULL
            if admission is Admission.FULL:
                self._parked.append((uri, future))
            else:
                self._replies.append((future, admission))
                settled += 1
        return settled

    def _is_full(self) -> bool:
        if not self._maxsize:
            return False
        total = self._frontier.summary()
        return total.queued - total.in_process >= self._maxsize

    # -- calls

    def add_many(self, uris: list[str | CrawlUri]) -> Tally:
        """Admit a batch; count and drop the URIs that find no room."""
        if not self._maxsize:
            return self._frontier.schedule_many(uris)
        tally = Tally()
        for uri in uris:
            if self._is_full():
                tally.find_full(MAXSIZE)
            else:
                tally.add(self._frontier.schedule_many([uri]))
        return tally

    def give_back(self, lease_and_wanted: tuple[Lease, int]) -> None:
        """Give back a lease that no call took, and add `wanted` to the number of waiting calls."""
        lease, wanted = lease_and_wanted
        self._wanted += wanted
        with suppress(LeaseExpired):
            self._frontier.finish(lease, Outcome.DEFERRED)

    def join(self, _: object) -> object:
        """Reply once the crawl is over, or when the frontier closes."""
        if self._reply_to is not None:
            self._joins.append(self._reply_to)
        return _LATER

    def is_over(self, _: object = None) -> bool:
        """Return whether the crawl is over: finished, paused on finishing, or terminated with nothing handed out."""
        state = self._frontier.state
        if state is CrawlState.PAUSED:
            return self._frontier.summary().pause_reason == crawl_states.FINISH
        if state is CrawlState.TERMINATED:
            return not self._frontier.summary().in_process
        return state in (CrawlState.NEW, CrawlState.FINISHED)

    def call(self, function: Callable[[Frontier], object]) -> object:
        """Run a function on the frontier, and reply with its result."""
        return function(self._frontier)

    def halt(self, _: object) -> None:
        """Stop leasing, and reply FULL to all calls that wait for room."""
        self._accepting = False
        self._replies += [(future, Admission.FULL) for _, future in self._parked]
        self._parked.clear()

    def stop(self, _: object) -> None:
        """Close the frontier after this round."""
        self._running = False
