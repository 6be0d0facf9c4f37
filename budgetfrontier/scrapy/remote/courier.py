"""The courier: two threads that carry requests and ends of leases to the server, and leases back.

The event loop of Scrapy never waits for them. One thread leases ahead, up to a bound; the other sends all that has
gathered meanwhile together: requests first, then the ends of leases. So a page ends only after the server has stored
the links that were found on it, and a process that is killed in between loses none.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from budgetfrontier.core.leasing_ahead import PASSING, PAUSE, TO_SPARE, LastSummary, LeaseTable, OpenCalls
from budgetfrontier.core.model import Admission, CrawlUri, Finish, Lease, Summary
from budgetfrontier.rules.crawl_states import MORE_TO_CRAWL, goes_on_after_finish

if TYPE_CHECKING:
    from budgetfrontier.connections import Connection

LANDED_AFTER = 0.05
"""Seconds that the end of a download waits for the end of its lease, which makes it needless."""
MOST = 2000
"""Requests sent together."""
MOST_WAITING = 10_000
"""Requests and ends that wait to be sent, from which on no more pages are fetched."""
MOST_BYTES = 64 << 20
"""Bytes of requests that wait to be sent, from which on the same holds."""

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class _Out(NamedTuple):
    uri: CrawlUri
    done: Callable[[Admission], object]
    budget: int | None
    kept: bool


class _End(NamedTuple):
    ending: Lease | Finish
    done: Callable[[], object]
    after: int
    """The number of requests that are to be stored before."""


class Courier:
    """The threads. All methods are for the event loop's thread, and none of them waits but `close`."""

    def __init__(
        self,
        frontier: Connection,
        *,
        prefetch: int,
        ttl: float,
        wake: Callable[[], None],
        on_late: Callable[[Lease], object],
        on_failure: Callable[[Exception], object],
    ) -> None:
        """Begin to lease. `wake` is called in a thread when `answer` has something to do, or a lease has come.

        `on_late` takes a lease that had ended before its end was sent, `on_failure` an error after which nothing more
        is sent; `answer` calls both.
        """
        self._frontier = frontier
        self._ttl = ttl
        self._wake, self._on_late, self._on_failure = wake, on_late, on_failure
        self._changed = threading.Condition()
        self._out: deque[_Out] = deque()
        self._ends: deque[_End] = deque()
        self._landed: dict[int, tuple[Lease, float | None, float]] = {}
        self._leases = LeaseTable(ttl, ahead=prefetch)
        self._answers: deque[Callable[[], object]] = deque()
        self._sending = self._scheduled = self._taken = 0
        self._bytes = 0
        self._last = LastSummary()
        self._calls = OpenCalls()
        self._stopping = self._abandoned = False
        self._next_renewal = monotonic() + self._leases.renew_every
        self.last_lease = monotonic()
        """When the last lease came."""
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"budgetfrontier {name}", daemon=True)
            for name, work in (("leases", self._lease_ahead), ("requests", self._send_all))
        ]
        for thread in self._threads:
            thread.start()

    # -- to the server

    def schedule(
        self, uri: CrawlUri, done: Callable[[Admission], object], *, budget: int | None = None, kept: bool = False
    ) -> None:
        """Send a URI; `answer` will call `done` with its admission.

        One that is `kept` stays with this process: the server marks it as seen, and charges its cost to its queue.
        """
        with self._changed:
            self._out.append(_Out(uri, done, budget, kept))
            self._bytes += _size(uri)
            self._scheduled += 1
            self._changed.notify_all()

    def finish(self, ending: Lease | Finish, done: Callable[[], object]) -> None:
        """End a lease, after all URIs that were scheduled before; `answer` will call `done` unless it was late."""
        with self._changed:
            self._landed.pop(_lease_of(ending).id, None)
            self._ends.append(_End(ending, done, self._scheduled))
            self._changed.notify_all()

    def landed(self, lease: Lease, seconds: float | None) -> None:
        """Report that a download is over, unless the lease ends soon after."""
        with self._changed:
            self._landed[lease.id] = (lease, seconds, monotonic() + LANDED_AFTER)
            self._changed.notify_all()

    # -- from the server

    def next_lease(self) -> Lease | None:
        """Return a lease that is ready. One that may have expired before its page is fetched is dropped."""
        with self._changed:
            found, expired = self._leases.take(1, monotonic() + self._ttl * TO_SPARE)
            if expired:
                self._answers.extend(partial(self._on_late, lease) for lease in expired)
            if self._leases.is_low:
                self._changed.notify_all()
        return found[0] if found else None

    def answer(self) -> None:
        """Pass the answers of the server since the last call to the callbacks."""
        while self._answers:
            self._answers.popleft()()

    # -- looking

    @property
    def waiting(self) -> int:
        """The number of requests and ends that are not stored yet."""
        return len(self._out) + len(self._ends) + self._sending

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be stored that no more is to come: the server does not keep up."""
        return self.waiting > MOST_WAITING or self._bytes > MOST_BYTES

    @property
    def ready(self) -> int:
        """The number of leases that wait in this process."""
        return self._leases.ready

    @property
    def summary(self) -> Summary | None:
        """The counters of the frontier when this process last looked."""
        return self._last.summary

    @property
    def left(self) -> int | None:
        """The number of requests in the frontier, leased ones too; None if it was not asked since the last change."""
        total = self._last.current
        return None if total is None else total.queued + total.future + total.in_process

    def silent_for(self) -> float:
        """Return for how many seconds a call has waited for its answer, besides those that leases may take."""
        return self._calls.silent_for()

    # -- the end

    def close(self, within: float) -> bool:
        """Send what waits, give back all leases, and disconnect; return whether that took at most `within` seconds.

        What is not sent is not lost: a lease whose end was not told expires, and its page is fetched again.
        """
        end = monotonic() + within
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._frontier.interrupt()
        sender = self._threads[1]
        sender.join(within)
        self._abandoned = True
        self._frontier.retry_for = 0.0  # for the threads, too
        leaver = threading.Thread(target=self._leave, name="budgetfrontier end", daemon=True)
        leaver.start()
        leaver.join(max(1.0, end - monotonic()))
        return not (sender.is_alive() or leaver.is_alive() or self.waiting)

    def _leave(self) -> None:
        self._threads[0].join()  # what it is leasing is given back, too
        with suppress(Exception):
            self._frontier.give_back(self._leases.all())
            self._last.put(self._last.sent, self._frontier.summary())
        with suppress(Exception):
            self._frontier.close()

    # -- in the threads

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as e:
            if not self._abandoned:
                self._answered([partial(self._on_failure, e)])

    def _call(self, call: Callable[..., _T], *args: Any, **named: Any) -> _T:
        """Call the server until it has done it."""
        number = self._calls.begin(named.get("wait", 0.0))
        try:
            while True:
                try:
                    return call(*args, **named)
                except PASSING as e:
                    if self._abandoned:
                        raise
                    log.debug("the server cannot do it now: %s", e)
                sleep(PAUSE)
        finally:
            self._calls.end(number)

    def _answered(self, answers: Iterable[Callable[[], object]]) -> None:
        self._answers.extend(answers)
        self._wake()

    def _lease_ahead(self) -> None:
        while True:
            with self._changed:
                while not (self._stopping or self._leases.is_low):
                    self._changed.wait()
                if self._stopping:
                    return
                room, sent = self._leases.room, self._last.sent
            asked = monotonic()
            leases = self._call(self._frontier.lease, room, ttl=self._ttl, wait=self._leases.lease_wait)
            if leases:
                with self._changed:
                    self._leases.add(leases, asked)
                    self.last_lease = monotonic()
                self._wake()
            else:
                self._look_around(sent)

    def _look_around(self, sent: int) -> None:
        """Look at the counters; `sent` is the number of batches that they contain."""
        summary = self._call(self._frontier.summary)
        if goes_on_after_finish(summary):
            self._call(self._frontier.resume, reason=MORE_TO_CRAWL)
        self._last.put(sent, summary)
        self._wake()

    def _send_all(self) -> None:
        while True:
            with self._changed:
                while not (self._out or self._ends or self._stopping) and (pause := self._pause()) > 0.0:
                    self._changed.wait(pause)
                if self._stopping and not (self._out or self._ends):
                    return
                out = [self._out.popleft() for _ in range(min(len(self._out), MOST))]
                self._taken += len(out)
                ends: list[_End] = []
                while self._ends and self._ends[0].after <= self._taken and len(ends) < MOST:
                    ends.append(self._ends.popleft())
                now = monotonic()
                landed = [each for each in self._landed.values() if each[2] <= now]
                for each in landed:
                    del self._landed[each[0].id]
                self._sending = len(out) + len(ends)
            self._send(out, ends, landed)

    def _pause(self) -> float:
        times = [self._next_renewal, *(each[2] for each in self._landed.values())]
        return min(times) - monotonic()

    def _send(self, out: list[_Out], ends: list[_End], landed: list[tuple[Lease, float | None, float]]) -> None:
        answers: list[Callable[[], object]] = []
        if out:
            answers += self._schedule(out)
        if landed:
            self._call(self._frontier.landed_many, [(lease, seconds) for lease, seconds, _ in landed])
        if ends:
            late = {id(each) for each in self._call(self._frontier.finish_many, [each.ending for each in ends])}
            with self._changed:
                for each in ends:
                    lease = _lease_of(each.ending)
                    self._leases.drop(lease)
                    answers.append(partial(self._on_late, lease) if id(lease) in late else each.done)
        if monotonic() >= self._next_renewal:
            self._renew()
        with self._changed:
            self._sending = 0
            self._bytes -= sum(_size(each.uri) for each in out)
            if out or ends:
                self._last.note_sent()
            sent, idle = self._last.sent, not (self._out or self._ends or self._leases.ready)
        if answers:
            self._answered(answers)
        if idle and ends and not self._leases and not self._stopping:
            self._look_around(sent)

    def _schedule(self, out: list[_Out]) -> list[Callable[[], object]]:
        marked = iter([self._marked(each.uri) for each in out if each.kept])
        sent = iter(self._call(self._frontier.schedule_each, [each.uri for each in out if not each.kept]))
        answers = [partial(each.done, next(marked if each.kept else sent)) for each in out]
        if budgets := [(each.uri, each.budget) for each in out if each.budget is not None]:
            self._call(self._frontier.set_budgets, budgets)  # now that their queues are there
        return list(answers)

    def _marked(self, uri: CrawlUri) -> Admission:
        """Mark a URI as seen; tell whether it was new."""
        if uri.force:
            return Admission.ADDED
        tally = self._call(self._frontier.mark_seen, [uri], charge=True)
        if tally.duplicate:
            return Admission.DUPLICATE
        return Admission.ADDED if tally.added else Admission.INVALID

    def _renew(self) -> None:
        with self._changed:
            leases = self._leases.all()
        asked = monotonic()
        self._next_renewal = asked + self._leases.renew_every
        if not leases:
            return
        late = self._call(self._frontier.renew_many, leases, self._ttl)
        with self._changed:
            self._leases.renew(leases, late, asked)


def _lease_of(ending: Lease | Finish) -> Lease:
    return ending.lease if isinstance(ending, Finish) else ending


def _size(uri: CrawlUri) -> int:
    return len(uri.url) + len(uri.payload or b"") + len(uri.body)
