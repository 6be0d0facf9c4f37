"""Leases without an outcome: expired, given back at closing, or left by a process that died.

Their URIs stay in their queues, and nothing is charged. A delivery is counted unless the lease was given back, and a
URI that was delivered too often goes to the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from budgetfrontier.core.model import Lease
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.rules import queue_states, uri_outcomes
from budgetfrontier.rules.queue_states import READY
from budgetfrontier.storage.uri_values import tries, with_tries

MOST_EXPIRED = 5_000
"""The most leases that one call ends because their deadline has come. The next calls end the others."""


class LeaseExpiry:
    """Ends leases without an outcome. O(1) for each."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns

    def expire(self, now: float) -> None:
        """End leases past their deadlines, `MOST_EXPIRED` at most; their queues join the ring's back."""
        if now >= self._tables.leases.next_expiry:
            for lease in self._each(self._tables.leases.due(now, MOST_EXPIRED)):
                self._count_delivery(lease, now)
                self._release(lease, now, front=False)

    def give_back(self, leases: list[Lease], now: float) -> None:
        """End leases, given in the order of their making; their queues join the ring's front in that order."""
        for lease in self._each(leases[::-1]):
            self._tables.pending.put_back(lease.queue_id, lease.key)
            self._release(lease, now, front=True)

    def drop(self, leases: Sequence[Lease], now: float) -> None:
        """End the leases of a process that died: as `give_back` does, but each delivery is counted."""
        for lease in self._each(leases):
            self._count_delivery(lease, now)
        for lease in self._each(leases[::-1]):
            self._release(lease, now, front=True)

    def _each(self, leases: Sequence[Lease]) -> Iterator[Lease]:
        """Yield leases; keep the records of their queues in memory bounded meanwhile.

        Each queue first takes changed settings from its head, because a URI that comes back may become the head.
        """
        queues = self._tables.queues.each(lease.queue_id for lease in leases)
        for lease, queue in zip(leases, queues, strict=True):
            self._turns.settings.refresh(queue)
            yield lease

    def _count_delivery(self, lease: Lease, now: float) -> None:
        """Give a URI back with one more delivery counted; make a dead letter of it if there were too many."""
        tables = self._tables
        tables.counters.expired += 1
        queue, value = tables.queues.get(lease.queue_id), tables.pending.value(lease.key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts, deliveries + 1)
        if uri_outcomes.is_delivered_too_often(deliveries + 1, tables.in_force.frontier.max_deliveries):
            tables.bury(queue, lease.key, value, "max deliveries", now)
        else:
            tables.pending.put_back(queue.id, lease.key, value)

    def _release(self, lease: Lease, now: float, *, front: bool) -> None:
        """End the lease of a URI that was given back; its queue joins the ring, at its front or its back."""
        tables = self._tables
        queue = tables.queues.get(lease.queue_id)
        del tables.leases.out[lease.id]
        queue.out -= 1
        queue.reserved -= lease.cost
        queue.landed -= lease.landed
        if queue.group:
            self._turns.groups.released(queue, lease, now)
        after = queue_states.after_lease_lost(queue, now)
        if after is not queue.state or (after is READY and front):
            self._turns.move(queue, after, now, front=front)
