"""A frontier of `budgetfrontier serve`, or of workers, as the thread of a Scheduler uses it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self

from budgetfrontier.aio.turn_batching import BATCH
from budgetfrontier.core import protocol
from budgetfrontier.core.leasing_ahead import TO_SPARE
from budgetfrontier.core.model import CrawlUri, Lease, RunEnd, Summary, Tally
from budgetfrontier.engine import capacity
from budgetfrontier.errors import PolicyError

if TYPE_CHECKING:
    from budgetfrontier.connections import Connection

LOOK_AGAIN = 0.2
"""Seconds between two looks at what other processes have changed."""
LEAVING = 5.0
"""Seconds for which closing waits for a server that does not answer."""


def connector(
    address: str, *, crawl: str, token: str | None, tls: bool | str | os.PathLike[str], retry_for: float
) -> Callable[[], Connection]:
    """Return a function that connects to the frontier at an address. Raises MissingExtra."""
    from budgetfrontier import connections

    connections.needed(address)
    return lambda: connections.connect(address, crawl=crawl, token=token, tls=tls, retry_for=retry_for)


def name_of(address: str, crawl: str) -> str:
    """Return the name of the crawl at an address, for messages."""
    from budgetfrontier import connections

    shown = connections.shown(address)
    return f"the crawl in partitions at {shown}" if connections.is_cluster(address) else f"crawl {crawl!r} at {shown}"


class SharedFrontier:
    """A frontier that other processes use, too. A second thread waits on the server for the URIs that are wanted.

    So the worker's messages do not wait for them. `arrived` is called in that thread when there is something for
    `take`.
    """

    interval = LOOK_AGAIN
    looks_at_ticks_only = True
    ready: float | None = None

    def __init__(self, remote: Connection, ttl: float | None, arrived: Callable[[], None]) -> None:
        self.frontier = remote
        self._ttl = ttl
        self._arrived = arrived
        self._changed = threading.Condition()
        self._wanted = 0
        self._leases: list[tuple[Lease, float]] = []
        """Leases that have arrived, and until when each is handed out."""
        self._error: Exception | None = None
        self._halted = False
        self._thread = threading.Thread(target=self._wait_for_uris, name=f"leases of {remote!r}", daemon=True)

    def want(self, count: int) -> None:
        """Add `count`, which may be negative, to the number of URIs that are wanted."""
        if count:
            with self._changed:
                self._wanted += count
                self._changed.notify()

    def take(self, leases: list[Lease]) -> None:
        """Add the URIs that have arrived. Raises PolicyError, and the error that has cut the frontier off.

        A lease that has waited here for so long that less than a quarter of its time is left is dropped: its end might
        come too late. It expires.
        """
        now = monotonic()
        with self._changed:
            arrived, self._leases = self._leases, []
            lasting = [lease for lease, until in arrived if until > now]
            leases += lasting
            if len(lasting) < len(arrived):
                self._wanted += len(arrived) - len(lasting)
                self._changed.notify()
            error, self._error = self._error, None
        if error is not None:
            raise error

    def admit_each(self, uris: list[str | CrawlUri], maxsize: int, *, again: bool = False) -> list[capacity.Result]:
        """Admit URIs while there is room for everybody's; return the result for each."""
        return self.frontier.admit_each(uris, maxsize=maxsize, again=again)

    def admit_many(self, uris: list[str | CrawlUri], maxsize: int) -> Tally:
        """Admit URIs while there is room for everybody's; count the results."""
        return self.frontier.admit_many(uris, maxsize=maxsize)

    def tick(self) -> None:
        """Do nothing: acknowledged calls are on the server's disk."""

    def halt(self) -> None:
        """Lease nothing more."""
        with self._changed:
            self._halted = True
            self._changed.notify()
        self.frontier.interrupt()

    def hurry(self) -> None:
        """Wait for a server that does not answer no longer than LEAVING from now on."""
        self.frontier.retry_for = min(self.frontier.retry_for, LEAVING)
        if hasattr(self.frontier, "timeout"):  # in partitions, a worker that hangs is given up sooner
            self.frontier.timeout = LEAVING

    def close(self, end: RunEnd, reason: str) -> Summary:
        """Give back the leases of this process, and disconnect; return the totals without it."""
        self.halt()
        self._thread.join()
        totals = self.frontier.summary()
        totals.in_process = max(totals.in_process - self.frontier.held, 0)
        self.frontier.close()
        return totals

    @property
    def _lease_ttl(self) -> float:
        return self.frontier.settings.frontier.lease_ttl if self._ttl is None else self._ttl

    def _wait_for_uris(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._halted or (self._wanted > 0 and self._error is None))
                if self._halted:
                    return
                count = min(self._wanted, BATCH)
            leases: list[Lease] = []
            error: Exception | None = None
            try:
                leases = self.frontier.lease(count, ttl=self._ttl, wait=protocol.LONGEST_WAIT)
            except Exception as e:
                error = e
            with self._changed:
                self._wanted -= len(leases)
                until = monotonic() + (1 - TO_SPARE) * self._lease_ttl
                self._leases += [(lease, until) for lease in leases]
                self._error = error
            if leases or error is not None:
                self._arrived()
            if error is not None and not isinstance(error, PolicyError):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.halt()
        if error is not None:
            self.hurry()
        self._thread.join()  # what it is leasing is given back, too
        self.frontier.close()
