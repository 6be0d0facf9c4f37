"""Counts of the spending and the fetches of queues in the current hour, in bounded memory."""

from __future__ import annotations

from collections import Counter, defaultdict

from budgetfrontier.rules import busiest
from budgetfrontier.rules.busiest import NOTHING, Busy


class BusiestQueues:
    """The counts of the current hour. Memory: `busiest.ROOM` queues, and the attempts of one commit.

    For each attempt, the id of its queue is put into the list of its cost. The lists are counted with the commit.
    """

    def __init__(self) -> None:
        self.charged: defaultdict[int, list[int]] = defaultdict(list)
        """By cost: the ids of the queues to which attempts were charged since the last commit."""
        self.start()

    def start(self, stored: Busy | None = None) -> None:
        """Continue from the stored counts of this hour, or begin an hour with none."""
        self._counts = dict(stored.counts) if stored else {}
        self._low = stored.others if stored else NOTHING  # of the others, nothing is known any more
        self._by_cost: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def penalized(self, queue_id: int, penalty: int) -> None:
        """Count the charge of a failed attempt beyond the cost of its URI."""
        spent, fetched = self._counts.get(queue_id, NOTHING)
        self._counts[queue_id] = spent + penalty, fetched

    def settle(self) -> None:
        """Count the attempts since the last commit."""
        for cost, queue_ids in self.charged.items():
            self._by_cost[cost].update(queue_ids)
        self.charged.clear()
        if sum(map(len, self._by_cost.values())) + len(self._counts) > busiest.ROOM:
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
        for cost, attempts in self._by_cost.items():
            for queue_id, times in attempts.items():
                spent, fetched = counts.get(queue_id, NOTHING)
                counts[queue_id] = spent + times * cost, fetched + times
        self._by_cost.clear()
