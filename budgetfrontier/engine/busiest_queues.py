"""Counts of the spending and the fetches of queues in the current hour, in bounded memory."""

from __future__ import annotations

from budgetfrontier.engine.charged_attempts import ChargedAttempts
from budgetfrontier.engine.native import kernel
from budgetfrontier.rules import busiest
from budgetfrontier.rules.busiest import NOTHING, Busy


class BusiestQueues:
    """The counts of the current hour. Memory: `busiest.ROOM` queues, and those of one commit."""

    def __init__(self) -> None:
        self.charged: ChargedAttempts = ChargedAttempts() if kernel is None else kernel.ChargedAttempts()
        """Attempts that are not added to the counts of their queues yet."""
        self.start()

    def start(self, stored: Busy | None = None) -> None:
        """Continue from the stored counts of this hour, or begin an hour with none."""
        self._counts = dict(stored.counts) if stored else {}
        self._low = stored.others if stored else NOTHING  # of the others, nothing is known any more

    def penalized(self, queue_id: int, penalty: int) -> None:
        """Count the charge of a failed attempt beyond the cost of its URI."""
        spent, fetched = self._counts.get(queue_id, NOTHING)
        self._counts[queue_id] = spent + penalty, fetched

    def settle(self) -> None:
        """Keep memory bounded, at each commit."""
        if len(self.charged) + len(self._counts) > busiest.ROOM:
            self._add_up()
            if len(self._counts) > busiest.ROOM // 2:
                self._counts, dropped = busiest.without_smallest(self._counts, busiest.ROOM)
                self._low = busiest.plus(self._low, dropped)

    def top(self) -> Busy:
        self.settle()
        self._add_up()
        counts, _, others = busiest.busiest(self._counts)
        return Busy(counts, self._low, busiest.plus(self._low, others))

    def _add_up(self) -> None:
        counts = self._counts
        for cost, queue_id, times in self.charged.drain():
            spent, fetched = counts.get(queue_id, NOTHING)
            counts[queue_id] = spent + times * cost, fetched + times
