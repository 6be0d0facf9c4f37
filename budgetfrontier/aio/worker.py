"""The thread that owns a Scheduler's frontier: it applies messages, hands out leases, commits, and sleeps."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from budgetfrontier import rules
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed, LeaseExpired, PolicyError
from budgetfrontier.model import Admission, CrawlState, CrawlUri, Lease, Outcome, Summary, Tally

BATCH = 500  # messages, and leases, between two looks at what else there is to do
SHORTEST = 0.05  # seconds between two commits of its own: a frontier that commits at each call needs none

log = logging.getLogger("budgetfrontier.aio")

Future = asyncio.Future[Any]

Message = tuple[Callable[[Any], object], Any, Future | None]
"""A method of the Worker, its argument, and the future that the answer resolves, if any."""

Answer = tuple[Future | None, object]
"""The future of who asked (None: whoever waits for a URI), and what resolves it."""

Adding = tuple[str | CrawlUri, Future]

_LATER = object()  # no answer yet


class Failure(NamedTuple):
    """An answer that is to be raised."""

    error: BaseException


class Worker:
    """One frontier and the thread it belongs to. The loop's thread uses `inbox` and, after the end, `totals` only.

    Messages are applied in the order in which they were put, but for what is added: that comes last, all at once.
    Leases are taken only for those who wait for one, never ahead of time. `deliver(answers, leases)` and `end(error)`
    are called in the loop's thread.
    """

    def __init__(
        self,
        open_frontier: Callable[[], Frontier],
        *,
        deliver: Callable[[list[Answer], list[Lease]], None],
        end: Callable[[BaseException | None], None],
        maxsize: int,
        wait: bool,
        ttl: float | None,
    ) -> None:
        self.inbox: SimpleQueue[Message] = SimpleQueue()
        self.totals: Summary | None = None
        """The counters at the end."""
        self._open, self._deliver, self._end = open_frontier, deliver, end
        self._maxsize, self._wait, self._ttl = maxsize, wait, ttl
        self._frontier: Frontier
        self._batch: list[Message] = []
        self._asking: Future | None = None
        """Who waits for the answer to the message that is being applied."""
        self._answers: list[Answer] = []
        self._leases: list[Lease] = []
        self._wanted = 0
        """Outstanding `get` calls. Briefly negative when a cancellation crosses a delivery."""
        self._adding: list[Adding] = []
        self._parked: deque[Adding] = deque()
        self._joining: list[Future] = []
        self._ready: float | None = None
        """When to look again for what is wanted, in seconds."""
        self._open_for_all = True
        self._running = True

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the frontier, serve it until told to stop, close it. What goes wrong is told to all who wait."""
        self._loop = loop
        error: BaseException | None = None
        try:
            with self._open() as self._frontier:
                self._interval = max(self._frontier.settings.frontier.commit_interval, SHORTEST)
                self._tick = time.monotonic() + self._interval
                while self._running:
                    self._serve()
                self.totals = self._frontier.summary()
                self.totals.in_process = 0  # given back by closing
        except BaseException as e:
            error = e
        waiting = [*self._joining, *(future for _, future in self._parked)]
        waiting += [future for _, _, future in self._batch if future is not None]
        self._answers += [(future, Failure(error) if error else None) for future in waiting]
        self._post()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, error)

    def _serve(self) -> None:
        """One round: what has come in, what may go out, who may go on, what is to be committed."""
        self._batch = self._receive()
        for function, argument, asking in self._batch:
            answer: object
            self._asking = asking
            try:
                answer = function(argument)
            except Exception as e:
                if not self._is_open():
                    raise
                answer = Failure(e)
                if asking is None:
                    log.exception("a message to the frontier failed; the crawl goes on")
            if asking is not None and answer is not _LATER:
                self._answers.append((asking, answer))
        if self._adding:
            self._admit()
        self._batch = []
        self._hand_out()
        while self._parked and self._unpark():
            self._hand_out()
        if self._joining and self.is_over():
            self._answers += [(future, None) for future in self._joining]
            self._joining = []
        self._post()
        if time.monotonic() >= self._tick:
            self._frontier.commit()
            self._tick = time.monotonic() + self._interval
            self._running &= not self._loop.is_closed()

    def _receive(self) -> list[Message]:
        patience = self._tick - time.monotonic()
        if self._ready is not None:
            patience = min(patience, self._ready)
        try:
            first = self.inbox.get(timeout=max(patience, 0.0))
        except Empty:
            return []
        return [first, *(self.inbox.get_nowait() for _ in range(min(self.inbox.qsize(), BATCH)))]

    def _is_open(self) -> bool:
        try:
            return bool(self._frontier.state)
        except FrontierClosed:
            return False

    def _post(self) -> None:
        if self._answers or self._leases:
            try:
                self._loop.call_soon_threadsafe(self._deliver, self._answers, self._leases)
            except RuntimeError:  # the loop was closed: nobody is left to serve
                self._running = False
            self._answers, self._leases = [], []

    def _admit(self) -> None:
        """Admit what is to be added, all at once; what finds no room waits, if it is to."""
        adding, self._adding = self._adding, []
        uris = [uri for uri, _ in adding]
        admissions: Sequence[Admission | Failure]
        if self._maxsize:
            admissions = [Admission.FULL if self._is_full() else self._schedule(uri) for uri in uris]
        else:
            try:
                admissions = self._frontier.schedule_each(uris)
            except PolicyError:  # of one of them, and nobody else is to be told
                admissions = [self._schedule(uri) for uri in uris]
        for (uri, future), admission in zip(adding, admissions, strict=True):
            if admission is Admission.FULL and self._wait and self._open_for_all:
                self._parked.append((uri, future))
            else:
                self._answers.append((future, admission))

    def _schedule(self, uri: str | CrawlUri) -> Admission | Failure:
        try:
            return self._frontier.schedule(uri)
        except PolicyError as e:
            return Failure(e)

    def _hand_out(self) -> None:
        """Lease what is wanted as far as it is there; else know when to look again."""
        self._ready = None
        while self._wanted > 0 and self._open_for_all:
            self._ready = self._frontier.next_ready_in()
            if self._ready != 0.0:  # not to be asked in vain: an empty answer waits for a commit
                return
            try:
                leases = self._frontier.lease(min(self._wanted, BATCH), ttl=self._ttl)
            except PolicyError as e:
                self._ready = None
                self._answers.append((None, Failure(e)))
                return
            if not leases:  # thousands of queues change: messages first
                return
            self._leases += leases
            self._wanted -= len(leases)
            self._ready = None

    def _unpark(self) -> int:
        """Add again what found no room, in order; return how many found it now. One full queue holds up no other."""
        found = 0
        self._parked = deque(each for each in self._parked if not each[1].done())  # but for those who gave up
        for _ in range(len(self._parked)):
            if self._is_full():
                break
            uri, future = self._parked.popleft()
            admission = self._schedule(uri)
            if admission is Admission.FULL:
                self._parked.append((uri, future))
            else:
                self._answers.append((future, admission))
                found += 1
        return found

    def _is_full(self) -> bool:
        if not self._maxsize:
            return False
        total = self._frontier.summary()
        return total.queued - total.in_process >= self._maxsize

    # -- messages

    def add(self, uri: str | CrawlUri) -> object:
        """Admit a URI, with all that is added in this round."""
        if self._asking is not None:
            self._adding.append((uri, self._asking))
        return _LATER

    def add_many(self, uris: list[str | CrawlUri]) -> Tally:
        """Admit a batch; what finds no room is counted and dropped."""
        if not self._maxsize:
            return self._frontier.schedule_many(uris)
        tally = Tally()
        for uri in uris:
            if self._is_full():
                tally.full += 1
            else:
                tally.add(self._frontier.schedule_many([uri]))
        return tally

    def want(self, count: int) -> None:
        """So many more wait for a URI, or fewer."""
        self._wanted += count

    def finish(self, lease_and_how: tuple[Lease, Outcome, dict[str, Any]]) -> None:
        """End a lease."""
        lease, outcome, how = lease_and_how
        try:
            self._frontier.finish(lease, outcome, **how)
        except LeaseExpired as e:
            log.warning("%s", e)

    def give_back(self, lease_and_wanted: tuple[Lease, int]) -> None:
        """Take back a lease that reached nobody; for `wanted` of them it had counted as served."""
        lease, wanted = lease_and_wanted
        self._wanted += wanted
        with suppress(LeaseExpired):
            self._frontier.finish(lease, Outcome.DEFERRED)

    def join(self, _: object) -> object:
        """Answer once the crawl is over, or at the end."""
        if self._asking is not None:
            self._joining.append(self._asking)
        return _LATER

    def is_over(self, _: object = None) -> bool:
        """Whether nothing is queued, out, or scheduled for later: finished, paused because of that, or terminated."""
        state = self._frontier.state
        if state is CrawlState.PAUSED:
            return self._frontier.summary().pause_reason == rules.FINISH
        if state is CrawlState.TERMINATED:
            return not self._frontier.summary().in_process
        return state in (CrawlState.NEW, CrawlState.FINISHED)

    def call(self, function: Callable[[Frontier], object]) -> object:
        """Run something else on the frontier."""
        return function(self._frontier)

    def halt(self, _: object) -> None:
        """Hand out nothing more, and let nobody wait for room."""
        self._open_for_all = False
        self._answers += [(future, Admission.FULL) for _, future in self._parked]
        self._parked.clear()

    def stop(self, _: object) -> None:
        """Close the frontier after this round."""
        self._running = False
