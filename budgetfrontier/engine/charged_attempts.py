"""The attempts that were charged to queues, counted."""

from __future__ import annotations

from collections import defaultdict


class ChargedAttempts:
    """Counts of attempts, by their cost and their queue. O(1) for each."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[int, int], int] = defaultdict(int)

    def __len__(self) -> int:
        """Return the number of counts."""
        return len(self._counts)

    def add(self, cost: int, queue_id: int) -> None:
        """Count an attempt."""
        self._counts[cost, queue_id] += 1

    def drain(self) -> list[tuple[int, int, int]]:
        """Return the counts in order, each as cost, id of the queue and number of attempts, and forget them."""
        counts = [(*key, times) for key, times in sorted(self._counts.items())]
        self._counts.clear()
        return counts
