"""The engine without threads, hooks and mailbox: the first steps of a lease, and the end of a crawl."""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.core.model import CrawlState, CrawlUri, Lease, Tally
from budgetfrontier.engine.lease_by_queue import LeaseByQueue
from budgetfrontier.engine.lease_expiry import LeaseExpiry
from budgetfrontier.engine.returning_uris import Returns
from budgetfrontier.engine.rollout import Rollout
from budgetfrontier.engine.rotation import NEVER
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.errors import PolicyError
from budgetfrontier.rules import crawl_states
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters

_RUNNING = CrawlState.RUNNING  # an Enum lookup costs 0.1 us in CPython 3.11


class Kernel:
    """The inside of one open frontier: its tables and the parts that change them.

    Each part knows only parts created before it.
    """

    def __init__(self, env: Environment, counters: Counters) -> None:
        self.tables = Tables(env, counters)
        self.counters = counters
        self.turns = Turns(self.tables)
        self.lease_expiry = LeaseExpiry(self.tables, self.turns)
        self.returns = Returns(self.tables, self.turns)
        self.rollout = Rollout(self.tables, self.turns)
        self.lease_by_queue = LeaseByQueue(self.tables, self.turns)
        self.underway = False
        """Whether a command of several steps is in progress: the crawl is not over before it is done."""
        self.put_again: Callable[[CrawlUri, float], Tally] | None = None
        """Schedules a URI in the one place of its URL (`KnownUrls.put_again`); None without `frontier.keep_urls`."""

    # -- leases

    def catch_up(self, now: float) -> None:
        """End the leases that have expired, and continue a roll-out: the first steps of a lease."""
        if now >= self.tables.leases.next_expiry:
            self.lease_expiry.expire(now)
        if self.rollout.waiting:
            self.rollout.step(now)
        if self.tables.in_force.counts_links and now >= self._end_of_epoch():
            self.counters.ranked_at = now
            self._rank(now)

    def let_return(self, now: float) -> None:
        """Let URIs and snoozed queues that are due return: the last step before a lease, some hundreds in one call.

        Then activate queues up to the number that is to be kept active.
        """
        self.turns.cut_short = self.rollout.waiting or self.underway
        if self.counters.state is _RUNNING:
            self.returns.place_due(now)
            self.turns.wake_due(now)
            if self.tables.in_force.least_active:
                self.turns.keep_active(self.tables.in_force.least_active, now)

    def lease(self, leases: list[Lease], count: int, ttl: float, now: float) -> list[Lease]:
        """Lease URIs, each queue in its turn, until `leases` has `count`; return it. Raises PolicyError."""
        if self.counters.state is _RUNNING:
            self.turns.lease(leases, count, ttl, now)
        return leases

    def lease_queues(
        self, queues: int, per_queue: int, key: str | None, ttl: float, now: float, limit: int
    ) -> list[Lease]:
        """Lease URIs by queue; see `Internals.lease_queues`."""
        leases: list[Lease] = []
        if self.counters.state is not _RUNNING:
            return leases
        try:
            if key is None:
                self.lease_by_queue.lease(leases, queues, per_queue, ttl, now, limit)
            elif (queue := self.tables.queues.find(self.tables.queues.named(key))) is not None:
                self.lease_by_queue.lease_from(leases, queue, per_queue, ttl, now, limit)
        except PolicyError:
            if not leases:
                raise
        return leases

    def next_ready_in(self, now: float) -> float | None:
        """Return the seconds until something may be leased; None if nothing known will become ready."""
        if self.underway:
            return 0.0
        tables, state = self.tables, self.counters.state
        if state in (CrawlState.PAUSED, CrawlState.PAUSING):
            return float(tables.in_force.frontier.commit_interval)
        if state is not _RUNNING:
            return None
        least = max(self.turns.crawl_waits_until(now) - now, 0.0)
        if tables.rotation.ring or self.counters.inactive or self.rollout.waiting:
            return least
        first = min(tables.rotation.first_wake(), tables.future.first_due())
        if self.counters.retired and tables.in_force.counts_links and tables.links.has_news():
            first = min(first, self._end_of_epoch())
        if tables.leases.next_expiry < first:  # a lower bound, so that only few calls look at the leases
            first = min(first, tables.leases.first_expiry())
        return None if first == NEVER else max(first - now, least)

    # -- the ranking of registered domains, for budgets by links

    def _end_of_epoch(self) -> float:
        return self.counters.ranked_at + self.tables.in_force.frontier.star.epoch

    def _rank(self, now: float) -> None:
        """Rank the domains again if links have changed their order: a change of the budgets, as by settings."""
        if self.tables.links.has_news():
            self.tables.links.rank()
            in_force = self.tables.in_force
            self.rollout.change_settings(in_force.settings, in_force.adjustments, now, precedence=False)

    # -- the state of the crawl

    def is_empty(self) -> bool:
        """Return whether the crawl is over now: nothing queued, leased, scheduled for later, or left to roll out."""
        counters = self.counters
        return not self.rollout.waiting and crawl_states.is_empty(
            queued=counters.queued,
            leases=len(self.tables.leases.out),
            future=counters.future,
            future_retired=counters.future_retired,
        )

    def settle(self) -> bool:
        """Update the state of the crawl after a change; return True if it has just paused because it is empty."""
        counters, before = self.counters, self.counters.state
        counters.state = self.next_state()
        if counters.state is not CrawlState.PAUSED or before in (CrawlState.PAUSED, CrawlState.PAUSING):
            return False
        counters.pause_reason = crawl_states.FINISH
        return True

    def next_state(self) -> CrawlState:
        """Return the state of the crawl once it has settled; rank the domains first if it would end a running crawl."""
        counters = self.counters
        if self.tables.in_force.counts_links and counters.state is CrawlState.RUNNING and self.is_empty():
            self._rank(counters.time)  # no URI is out, so that no wait depends on the time
        return crawl_states.next_crawl_state(
            counters.state,
            scheduled=counters.scheduled,
            leases=len(self.tables.leases.out),
            empty=self.is_empty(),
            busy=self.underway,
            pause_at_finish=self.tables.in_force.frontier.pause_at_finish,
        )
