"""Rules for a process that leases ahead from a shared frontier, without I/O: its leases, calls, and view of the crawl.

Drivers call the frontier: Scrapy's courier in two threads, the crawler in tasks of its event loop. `aio`, which neither
renews leases nor gathers their ends, shares only `TO_SPARE`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count

from budgetfrontier.core.model import Lease, Summary
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierLocked, StorageFull

LEASE_WAIT = 2.0
"""Seconds for which the server waits for URIs before it says that there are none."""
TO_SPARE = 0.25
"""The part of its time that a lease must have left when a request is made: with the defaults, 75 of 300 s.

Leases are renewed when a third of their time has passed, so that one with less could not be renewed.
"""
PASSING = (ConnectionLost, StorageFull, FrontierClosed, FrontierLocked)
"""Errors after which a call is repeated: the server could not carry it out, with a full disk for example."""
PAUSE = 1.0
"""Seconds before a call is repeated."""
SILENT = 5.0
"""Seconds without an answer after which the server is said to be away."""


class LeaseTable:
    """The leases of one process: ready ones, taken ones, and those with an end not sent yet.

    Up to `ahead` URIs are leased ahead. A lease lasts `ttl` seconds from the time at which it was asked for or renewed.
    Times are those of `time.monotonic`, because the clock of the server may be another one.
    """

    def __init__(self, ttl: float, *, ahead: int) -> None:
        self._ttl, self._ahead = ttl, ahead
        self._held: dict[int, tuple[Lease, float]] = {}
        """By id: each lease, and until when it lasts."""
        self._ready: deque[Lease] = deque()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def ready(self) -> int:
        """The number of leases that wait to be taken."""
        return len(self._ready)

    @property
    def lease_wait(self) -> float:
        """The seconds for which a call may wait for leases."""
        return min(LEASE_WAIT, self._ttl / 4)

    @property
    def renew_every(self) -> float:
        """The seconds between two renewals of all leases."""
        return self._ttl / 3

    @property
    def is_low(self) -> bool:
        """Whether to lease more: half of the leases made ahead were taken."""
        return len(self._ready) <= self._ahead // 2

    @property
    def room(self) -> int:
        """The number of URIs to lease ahead now; below 0 if more than that are ready."""
        return self._ahead - len(self._ready)

    def add(self, leases: list[Lease], asked_at: float) -> None:
        until = asked_at + self._ttl
        self._held.update((lease.id, (lease, until)) for lease in leases)
        self._ready.extend(leases)

    def take(self, count: int, until: float) -> tuple[list[Lease], list[Lease]]:
        """Return up to `count` leases that last beyond a time, and those found that do not, which are dropped."""
        taken: list[Lease] = []
        expired: list[Lease] = []
        while self._ready and len(taken) < count:
            lease = self._ready.popleft()
            if lease.id in self._held and self._held[lease.id][1] > until:
                taken.append(lease)
            else:
                self.drop(lease)
                expired.append(lease)
        return taken, expired

    def take_back(self) -> list[Lease]:
        """Return all leases that wait to be taken, and forget them."""
        ready, self._ready = [*self._ready], deque()
        for lease in ready:
            self.drop(lease)
        return ready

    def has_time(self, lease: Lease, now: float) -> bool:
        """Return whether a lease lasts long enough for a request, as far as is known."""
        return lease.id in self._held and self._held[lease.id][1] >= now + self._ttl * TO_SPARE

    def drop(self, lease: Lease) -> None:
        """Forget a lease that has ended."""
        self._held.pop(lease.id, None)

    def all(self) -> list[Lease]:
        return [lease for lease, _ in [*self._held.values()]]

    def renew(self, leases: Iterable[Lease], late: Iterable[Lease], asked_at: float) -> None:
        """Note that a call made at `asked_at` has renewed leases; those in `late` had ended before."""
        ended, until = {lease.id for lease in late}, asked_at + self._ttl
        for lease in leases:
            if lease.id in self._held:
                self._held[lease.id] = lease, 0.0 if lease.id in ended else until


class LastSummary:
    """The counters of a crawl as of the last look, and whether all that this process has sent is counted in them."""

    def __init__(self) -> None:
        self.sent = 0
        """The number of batches that the frontier has stored for this process: to be read before a look."""
        self._seen: tuple[int, Summary] | None = None

    def note_sent(self) -> None:
        """Count a batch that the frontier has stored."""
        self.sent += 1

    def put(self, sent: int, summary: Summary) -> None:
        """Store the counters that contain so many batches."""
        self._seen = sent, summary

    @property
    def summary(self) -> Summary | None:
        """The counters; None before the first look."""
        return None if self._seen is None else self._seen[1]

    @property
    def current(self) -> Summary | None:
        """The counters if nothing has been sent since; otherwise None."""
        seen = self._seen
        return None if seen is None or seen[0] != self.sent else seen[1]


class OpenCalls:
    """The calls of a process that wait for their answers. Threads may share it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due: dict[int, float] = {}
        self._numbers = count()

    def begin(self, wait: float) -> int:
        """Add a call that may take `wait` seconds to be answered; return its number."""
        number = next(self._numbers)
        self._due[number] = self._now() + wait
        return number

    def due(self, number: int) -> float:
        """Return when the answer to a call was, or is, to come."""
        return self._due[number]

    def end(self, number: int) -> None:
        """Remove a call."""
        del self._due[number]

    def silent_for(self) -> float:
        """Return for how many seconds an answer is overdue: others may come, such as that nothing is there to lease."""
        first = min(self._due.copy().values(), default=None)
        return 0.0 if first is None else max(0.0, self._now() - first)
