"""Leases by queue: several URIs of a queue in one turn, for crawlers that fetch them one after the other themselves."""

from __future__ import annotations

from budgetfrontier.core.model import Lease, QueueRecord
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import MAX_TURNS, Turns
from budgetfrontier.rules import queue_states
from budgetfrontier.rules.queue_states import INACTIVE, READY, RETIRED, SNOOZED
from budgetfrontier.storage.uri_values import restore_pending

LIMIT = 1 << 16
"""URIs that one call hands out at the most, unless it says otherwise."""
LARGEST_TURN = 10_000
"""URIs of a queue up to which its turn is not cut short by the limit of the call."""


class LeaseByQueue:
    """Gives each queue a turn with several URIs. A tenth of a `Turns.lease` more for each."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns
        self._left = 0
        """Turns without a lease that this call may still give, those of URIs that are stopped before theirs."""

    def lease(self, leased: list[Lease], queues: int, per_queue: int, ttl: float, now: float, limit: int) -> None:
        """Hand out up to `limit` URIs of up to `queues` queues, each in its turn, until each has `per_queue` out.

        The last turn is not cut short, if `per_queue` is not 0.
        The READY queues come first; then INACTIVE ones are activated. Raises PolicyError; URIs in `leased` are out.
        """
        rotation, counters = self._tables.rotation, self._tables.counters
        turns, self._left = MAX_TURNS, MAX_TURNS
        if self._turns.crawl_waits_until(now) > now:
            return
        for _ in range(len(rotation.ring)):
            if queues <= 0 or len(leased) >= limit:
                return
            if not turns:
                self._turns.cut_short = True
                return
            queue = self._tables.queues.get(rotation.ring.front())
            if self._serve(leased, queue, per_queue, ttl, now, limit):
                queues -= 1
            else:
                turns -= 1
        while queues > 0 and counters.inactive and len(leased) < limit:
            if not turns:
                self._turns.cut_short = True
                return
            turns -= 1
            queue = self._turns.activate_next(now)
            if queue.state is READY and self._serve(leased, queue, per_queue, ttl, now, limit):
                queues -= 1

    def lease_from(
        self, leased: list[Lease], queue: QueueRecord, per_queue: int, ttl: float, now: float, limit: int
    ) -> None:
        """Hand out URIs of one queue, out of its turn: an INACTIVE one is activated. Raises PolicyError."""
        self._left = MAX_TURNS
        if self._turns.crawl_waits_until(now) > now:
            return
        if queue.state is INACTIVE:
            settings, precedence = self._turns.settings.asked(queue, self._turns.settings.head_uri(queue))
            self._turns.activate(queue, settings, precedence, now)
        if queue.state is READY:
            self._serve(leased, queue, per_queue, ttl, now, limit)

    def _serve(
        self, leased: list[Lease], queue: QueueRecord, per_queue: int, ttl: float, now: float, limit: int
    ) -> int:
        """Give a READY queue its turn; return how many URIs it has handed out. It leaves the front of the ring."""
        tables, settings_of = self._tables, self._turns.settings
        settings, stopped = tables.in_force.base, False
        if not tables.in_force.trivial or queue.revision != tables.counters.settings_revision:
            head = settings_of.head_uri(queue)
            settings, precedence = settings_of.asked(queue, head)
            if queue.revision != tables.counters.settings_revision:
                settings_of.take_budgets(queue, settings, precedence)
        if self._turns.is_spent(queue, settings.reached):
            tables.rotation.move(queue, RETIRED)
            return 0
        most = min(per_queue or LIMIT, settings.per_queue_concurrency)
        count, limit = 0, max(limit - len(leased), min(per_queue, LARGEST_TURN))
        while count < limit and queue_states.may_lease(queue, most, settings.reached):
            if tables.guarded and self._moves(queue, now):
                if queue.state is READY and not self._turns.cut_short:
                    continue
                stopped = queue.state is SNOOZED
                break
            if tables.guarded and self._stops(queue, now):
                if queue.state is READY and not self._turns.cut_short:
                    continue  # its head was disregarded
                stopped = queue.state is not READY
                break
            found = self._take(queue, ttl, now)
            if found is None:
                break
            leased.append(found)
            count += 1
        if not count and queue.state is not READY:
            return 0
        if stopped:
            if count:
                queue.served = now
                self._turns.set_interval(queue, queue.interval, now)
            return count
        self._turns.end_turn(queue, settings, now, leased=count > 0)
        return count

    def _moves(self, queue: QueueRecord, now: float) -> bool:
        """Return whether the head of a queue has moved to another queue instead of being leased."""
        found = self._tables.pending.head(queue.id)
        if found is None or found[0] in self._tables.pending.taken:
            return False  # it is damaged, or all are out
        if not self._turns.moves(queue, restore_pending(*found, queue.queue), now):
            return False
        self._count_turn()
        return True

    def _stops(self, queue: QueueRecord, now: float) -> bool:
        """Return whether the next URI of a queue is not leased: its turn ends, or the URI was disregarded."""
        found = self._tables.pending.head(queue.id)
        if found is None:
            return False  # it is damaged
        head = restore_pending(*found, queue.queue)
        settings = self._tables.in_force.for_uri(head.url, queue.queue, head.source)
        if not self._turns.stopped_before_lease(queue, head, settings, now):
            return False
        self._count_turn()
        return True

    def _count_turn(self) -> None:
        """Count a URI that was not leased: a call goes on after some hundreds of them at the most."""
        self._left -= 1
        self._turns.cut_short |= self._left <= 0

    def _take(self, queue: QueueRecord, ttl: float, now: float) -> Lease | None:
        """Lease the next URI of a queue; return None if all are out."""
        record = self._tables.pending.next(queue.id)
        if record is None:
            return None
        return self._turns.hand_out(queue, record, restore_pending(*record, queue.queue), now + ttl, now)
