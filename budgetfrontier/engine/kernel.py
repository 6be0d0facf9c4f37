"""The engine without threads, hooks and mailbox: its tables, what changes them, and when a crawl is over."""

from __future__ import annotations

from budgetfrontier.engine.arrivals import Arrivals
from budgetfrontier.engine.attempts import Attempts
from budgetfrontier.engine.rollout import Rollout
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.model import CrawlState
from budgetfrontier.rules import crawl_states
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import Counters


class Kernel:
    """One open frontier inside. Its parts know those above them: tables, turns, attempts and arrivals, the roll-out."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self.tables = Tables(env, counters)
        self.counters = counters
        self.turns = Turns(self.tables)
        self.attempts = Attempts(self.tables, self.turns)
        self.arrivals = Arrivals(self.tables, self.turns)
        self.rollout = Rollout(self.tables, self.turns)
        self.underway = False
        """Whether a command is in progress that takes more than one step: the crawl is not over before it is."""

    def __repr__(self) -> str:
        c = self.counters
        return (
            f"<Kernel {c.state}: {c.queued} URIs queued, {c.future} for later, {len(self.tables.leases.out)} out, "
            f"{c.queues} queues{', a command in progress' * self.underway}{', a roll-out' * self.rollout.waiting}>"
        )

    def is_empty(self) -> bool:
        """Tell whether the crawl is over, as things stand: nothing queued, out, for later, or to be rolled out."""
        counters = self.counters
        return not self.rollout.waiting and crawl_states.is_empty(
            queued=counters.queued,
            leases=len(self.tables.leases.out),
            future=counters.future,
            future_retired=counters.future_retired,
        )

    def settle(self) -> bool:
        """Let the crawl's state follow what happened. True if it has just paused at its finish."""
        counters, before = self.counters, self.counters.state
        if before is CrawlState.RUNNING and counters.queued:
            return False  # the common case: it is not empty
        counters.state = crawl_states.next_crawl_state(
            before,
            scheduled=counters.scheduled,
            leases=len(self.tables.leases.out),
            empty=self.is_empty(),
            busy=self.underway,
            pause_at_finish=self.tables.in_force.frontier.pause_at_finish,
        )
        if counters.state is not CrawlState.PAUSED or before in (CrawlState.PAUSED, CrawlState.PAUSING):
            return False
        counters.pause_reason = crawl_states.FINISH
        return True
