"""The count of what queues spent and fetched in the current hour, in bounded memory."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from random import randrange

from budgetfrontier.rules import busiest
from budgetfrontier.store import keys

MOST = 500
"""Attempts of one commit that are counted."""

_PRICED = keys.pending_start.size
_priced = itemgetter(slice(_PRICED))  # the part of a pending key up to the cost


class BusiestQueues:
    """The counts of the current hour. Memory: `busiest.ROOM` queues, and the keys of one commit.

    For each attempt, the key of its URI, which tells queue and cost, is put into a list. Once a commit they are
    counted, MOST of them at the most: counts are exact up to a thousand attempts a second, and estimates beyond.
    """

    def __init__(self) -> None:
        self.charged: list[bytes] = []
        """The keys of the URIs whose attempts were charged since the last commit."""
        self.start()

    def __repr__(self) -> str:
        return f"<BusiestQueues {len(self._counts)} queues, counts too low by {self.missed} at the most>"

    def start(self, counts: busiest.Counts | None = None, missed: int = 0, *, sampled: bool = False) -> None:
        """Go on from these counts, or begin an hour with none."""
        self._counts = counts or {}
        self._by_cost: Counter[bytes] = Counter()
        self.missed = missed
        """The most attempts by which a count may be too low."""
        self.sampled = sampled
        """Whether attempts were not all counted, so that the counts are estimates."""

    def penalized(self, queue_id: int, penalty: int) -> None:
        """Count what a failed attempt was charged beyond the cost of its URI."""
        spent, fetched = self._counts.get(queue_id, (0, 0))
        self._counts[queue_id] = spent + penalty, fetched

    def settle(self) -> None:
        """Count the attempts since the last commit."""
        charged, by_cost = self.charged, self._by_cost
        each = -(-len(charged) // MOST)  # every so many-th attempt is counted, and stands for so many
        if each == 1:
            by_cost.update(map(_priced, charged))
        elif each:
            self.sampled = True
            for key, times in Counter(map(_priced, charged[randrange(each) :: each])).items():
                by_cost[key] += times * each
        charged.clear()
        if len(self._by_cost) + len(self._counts) > busiest.ROOM:
            self._add_up()
            if len(self._counts) > busiest.ROOM // 2:
                counts, missed = busiest.without_smallest(self._counts, busiest.ROOM)
                self.start(counts, self.missed + missed, sampled=self.sampled)

    def top(self) -> busiest.Counts:
        """Return the busiest queues."""
        self.settle()
        self._add_up()
        return busiest.busiest(self._counts)

    def _add_up(self) -> None:
        counts = self._counts
        for key, times in self._by_cost.items():
            queue_id, _, _, cost = keys.pending_start.unpack(key)
            spent, fetched = counts.get(queue_id, (0, 0))
            counts[queue_id] = spent + times * cost, fetched + times
        self._by_cost.clear()
