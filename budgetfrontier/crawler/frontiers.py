"""The methods of a frontier that the crawler calls, of its own or a shared one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from budgetfrontier.core.model import CrawlState, Finish, Lease, Summary
from budgetfrontier.rules.verdict import Verdict
from budgetfrontier.settings.overrides import QueueSettings


class CrawlFrontier(Protocol):
    """The methods that the main loop calls, of `Frontier` or of `LeasingFrontier`. None waits for the network."""

    @property
    def state(self) -> CrawlState:
        """The state of the crawl."""

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; None if that is not known."""

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Lease up to `count` URIs."""

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End leases; return those known to have ended before."""

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease."""

    def summary(self) -> Summary:
        """Return the counters."""

    def verdict(self, *, rate: float | None = None) -> Verdict | None:
        """Return whether the crawl goes on, or why not; None if that is not known."""

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more."""

    def commit(self) -> None:
        """Make everything durable, the outputs first."""


class CrawlInternals(Protocol):
    """The methods that the main loop calls, of `Frontier.internals` or of `LeasingFrontier`."""

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI."""

    def lacks_address(self, lease: Lease) -> bool:
        """Return whether some setting goes by the address of the host of a lease, which is not known."""

    def postpone_commit(self, seconds: float) -> None:
        """Commit no earlier than in so many seconds by itself: the outputs are being synced."""
