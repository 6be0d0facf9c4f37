"""Turns of queues and ends of leases where only budgets and waits have a say: the compiled kernel takes them.

It stops before whatever else a turn or an end may need, which `Turns.lease` and `BatchFinisher.end_successes` do then:
they are the definition, and do everything where the kernel is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from budgetfrontier.core.model import CrawlUri, Finish, Lease, QueueRecord, QueueState
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.tables import Tables
from budgetfrontier.storage.uri_values import LOW_COSTS, PLAIN_KIND, SCHEME_OF

_Limits = tuple[int, bool, int, int]


class PlainTurns:
    """The kernel with the tables that it changes; the totals are changed once for all that it does in a call.

    `move(queue, state, now)` makes the moves that are no plain ones: `Turns.move`.
    """

    def __init__(self, tables: Tables, move: Callable[[QueueRecord, QueueState, float], None]) -> None:
        assert kernel is not None
        self._tables = tables
        self.counters = tables.counters
        self.set_wake = tables.rotation.set_wake
        self.move = move
        queues, pending = tables.queues, tables.pending
        parts = {
            "cache": queues.cache,
            "dirty": queues.dirty,
            "get": queues.get,
            "ahead": pending.ahead,
            "read": pending.read,
            "taken": pending.taken,
            "out": tables.leases.out,
            "ring": tables.rotation.ring,
            "charged": tables.busiest.charged,
            "lease": Lease,
            "uri": CrawlUri,
        }
        self._kernel: Any = kernel.Turns(parts, schemes=SCHEME_OF, normal=PLAIN_KIND, costs=len(LOW_COSTS))

    @property
    def best_waiting(self) -> int:
        """The best precedence of INACTIVE queues."""
        return self._tables.rotation.best_waiting

    @property
    def snoozed(self) -> Any:
        """Writes a row of the table `snoozed`."""
        return self._tables.env.snoozed.put

    def _limits(self) -> _Limits:
        base = self._tables.in_force.base
        best = self._tables.rotation.best_waiting
        return base.per_queue_concurrency, base.reached, self.counters.settings_revision, best

    def lease(self, leased: list[Lease], count: int, deadline: float, now: float) -> bool:
        """Hand out URIs until there are `count` in the list; return whether the ring is used up before.

        It stops before a turn that needs more. O(1) for each.
        """
        leases, counters, before = self._tables.leases, self.counters, len(leased)
        leases.next_expiry = min(leases.next_expiry, deadline)
        used_up, counters.ring_back, in_ring = self._kernel.hand_out(
            leased, count - before, leases.next_id, deadline, int(now), self._limits(), counters.ring_back
        )
        made = len(leased) - before
        leases.made(made, now)
        counters.in_process += made - in_ring
        return bool(used_up)

    def end(
        self, leases: list[Lease], timed: Sequence[Finish] | None, start: int, late: list[Lease], now: float
    ) -> int:
        """End leases from one on, all as successes; return the place of the first that needs more.

        `timed` has how each ended, with no details that change where it goes. Leases that have ended before are added
        to `late`. O(1) for each.
        """
        tables, counters, rotation, in_force = self._tables, self.counters, self._tables.rotation, self._tables.in_force
        rest, each = in_force.same_rest or 0, None
        mine: dict[int, Lease | None] = {}
        if timed is not None:
            base, left = in_force.base, timed[start:]
            mine = {item.lease.id: tables.leases.out.get(item.lease.id) for item in left}
            rests = [in_force.rest(item.lease.uri, base, item.fetch_seconds, item.crawl_delay) for item in left]
            each = [(now + rest if rest > 0 else 0, item.size) for rest, item in zip(rests, left, strict=True)]
        place: int
        place, count, uncounted, spent, size, joined, snoozed, counters.ring_back, first_wake = self._kernel.end(
            leases, start, late, tables.pending.removed, now, now + rest if rest > 0 else 0, each,
            now + tables.longest_delay, self._limits(), self,
        )  # fmt: skip
        if first_wake < rotation.next_wake:
            rotation.next_wake = first_wake
        counters.succeeded += count
        counters.queued -= count - uncounted
        counters.expenditure += spent
        counters.bytes += size
        counters.in_process -= joined + snoozed
        counters.snoozed += snoozed
        for item in () if timed is None else timed[start:place]:
            if (lease := mine.pop(item.lease.id, None)) is not None:
                tables.history.ended(lease, item)
        return place
