"""The frontier of a Scheduler's own process, as its worker uses it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from budgetfrontier.aio.turn_batching import BATCH
from budgetfrontier.core.model import CrawlUri, Lease, RunEnd, Summary, Tally
from budgetfrontier.engine import capacity
from budgetfrontier.engine.frontier import Frontier

MIN_COMMIT_INTERVAL = 0.05  # seconds between two commits of the worker; a frontier may also commit at each call


class OwnFrontier:
    """A frontier of this process alone: reads cost nothing, and URIs are leased as soon as they are ready."""

    looks_at_ticks_only = False

    def __init__(self, frontier: Frontier, ttl: float | None) -> None:
        self.frontier = frontier
        self.interval = max(frontier.settings.frontier.commit_interval, MIN_COMMIT_INTERVAL)
        self.ready: float | None = None
        self._ttl = ttl
        self._wanted = 0
        """Briefly negative when a cancellation crosses a delivery."""

    def want(self, count: int) -> None:
        """Add `count`, which may be negative, to the number of URIs that are wanted."""
        self._wanted += count

    def take(self, leases: list[Lease]) -> None:
        """Lease as many URIs as are wanted; if there are too few, note when the next is ready. Raises PolicyError."""
        self.ready = None
        while self._wanted > 0:
            self.ready = self.frontier.next_ready_in()
            if self.ready != 0.0:  # do not call `lease` for nothing: an empty result commits
                return
            self.ready = None
            taken = self.frontier.lease(min(self._wanted, BATCH), ttl=self._ttl)
            if not taken:  # thousands of queues change state first: read messages in between
                self.ready = 0.0
                return
            leases += taken
            self._wanted -= len(taken)

    def admit_each(self, uris: list[str | CrawlUri], maxsize: int, *, again: bool = False) -> list[capacity.Result]:
        """Admit URIs while there is room; return the result for each."""
        return capacity.admit_each(self.frontier, uris, maxsize, again=again)

    def admit_many(self, uris: list[str | CrawlUri], maxsize: int) -> Tally:
        """Admit URIs while there is room; count the results."""
        return capacity.admit_many(self.frontier, uris, maxsize)

    def tick(self) -> None:
        """Commit."""
        self.frontier.commit()

    def halt(self) -> None:
        """Lease nothing more; `take` is not called again."""

    def hurry(self) -> None:
        """Do nothing: a wait for the disk cannot be shortened."""

    def close(self, end: RunEnd, reason: str) -> Summary:
        """Close the frontier; return its last totals, as the next run finds them."""
        totals = self.frontier.summary()
        totals.in_process = 0  # given back by closing
        self.frontier.close(end=end, reason=reason)
        return totals

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.frontier.__exit__(kind, error, traceback)
