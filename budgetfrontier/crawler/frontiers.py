"""The methods of a frontier that the crawler calls: of its own or a shared one, and of a crawl in another process."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Protocol

from budgetfrontier.core.model import CrawlState, CrawlUri, Finish, Lease, QueueRecord, Summary, Tally
from budgetfrontier.rules.verdict import Verdict
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import QueueSettings


class CrawlFrontier(Protocol):
    """The methods that the main loop calls, of `Frontier` or of `SharedFrontier`. None waits for the network."""

    @property
    def state(self) -> CrawlState:
        """The state of the crawl."""

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; None if that is not known."""

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Lease up to `count` URIs."""

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End leases; return those that are known to have ended before."""

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease."""

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI."""

    def summary(self) -> Summary:
        """Return the counters."""

    def verdict(self, *, rate: float | None = None) -> Verdict | None:
        """Return whether the crawl goes on, or why not; None if that is not known."""

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more."""

    def commit(self) -> None:
        """Make everything durable, the outputs first."""

    def postpone_commit(self, seconds: float) -> None:
        """Commit no earlier than in so many seconds by itself: the outputs are being synced."""


class RemoteCrawl(Protocol):
    """The methods of a crawl in another process that the crawler calls; repeated while the connection is lost.

    They raise what `Frontier` raises for them, and ConnectionLost if there is no answer within the time set.
    """

    name: str
    """The address with the name of the crawl, for messages."""
    in_partitions: bool
    """Whether some of it may answer while the rest does not."""

    @property
    def settings(self) -> Settings:
        """The settings of the crawl, without the adjustments."""

    @property
    def folder(self) -> Path:
        """The folder of the frontier, where it is served."""

    def connect(self) -> Awaitable[object]:
        """Connect, within 30 seconds; calls are repeated without end from then on."""

    def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Awaitable[Tally]:
        """Admit URIs in order; durable when it returns."""

    def lease(self, count: int, *, ttl: float | None, wait: float) -> Awaitable[list[Lease]]:
        """Lease up to `count` URIs; wait for the first for so many seconds."""

    def finish_many(self, finished: Iterable[Lease | Finish]) -> Awaitable[list[Lease]]:
        """End leases; return those that had ended."""

    def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int, *, ttl: float | None
    ) -> Awaitable[tuple[list[Lease], list[Lease]]]:
        """End leases, and lease up to `count` URIs without waiting for any."""

    def by_partition(self, leases: Iterable[Lease]) -> dict[int, list[Lease]]:
        """Return leases by the part of the crawl that answers, or does not, for all of them."""

    def renew_many(self, leases: Iterable[Lease], ttl: float | None) -> Awaitable[list[Lease]]:
        """Set the deadlines of leases; return those that had ended."""

    def give_back(self, leases: Iterable[Lease]) -> Awaitable[list[Lease]]:
        """End leases as if they had never been given."""

    def summary(self) -> Awaitable[Summary]:
        """Return the counters, of all processes together."""

    def resume(self, *, reason: str, who: str) -> Awaitable[object]:
        """Resume the crawl."""

    def queue(self, key: str) -> Awaitable[QueueRecord | None]:
        """Return the record of a queue."""

    def queue_key(self, uri: CrawlUri) -> Awaitable[str]:
        """Return the key of the queue of a URI. Raises ValueError if it has none."""

    def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None, crawl_delay: float | None
    ) -> Awaitable[float]:
        """Return the politeness delay of a queue after a fetch."""

    def refresh(self) -> Awaitable[None]:
        """Look which adjustments are in force, for `settings_for`."""

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI, as of the last `refresh`."""

    def close(self, *, within: float) -> Awaitable[None]:
        """Give back all leases and disconnect; wait for no answer for longer than so many seconds."""
