"""The end of an attempt: finished, retried or lost. Charges are made here, and wake times set."""

from __future__ import annotations

from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.model import Lease, Outcome, QueueRecord
from budgetfrontier.rules import charges, queue_states, uri_outcomes, wake_times
from budgetfrontier.rules.queue_states import IN_PROCESS, READY, RETIRED
from budgetfrontier.rules.uri_outcomes import Fate
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store.records import tries, with_tries

_SUCCESS = Outcome.SUCCESS


class Attempts:
    """Ends leases, and lets URIs and queues go where `rules` says. O(1) each."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns

    def __repr__(self) -> str:
        c = self._tables.counters
        return f"<Attempts {c.succeeded} succeeded, {c.failed} failed, {c.retried} retried, {self._tables.leases!r}>"

    # -- finishes

    def rest(self, lease: Lease, seconds: float, now: float) -> None:
        """Let the queue of a lease rest so long, or as long as it does already."""
        queue = self._tables.queues.get(lease.queue_id)
        if now + seconds > queue.wake_time:
            self._tables.rotation.set_wake(queue, now + seconds)

    def rest_after(
        self,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        politeness: float,
        delay: float | None,
        now: float,
    ) -> None:
        """Let the queue of a lease rest when a retry, or a `delay` given by name, may lengthen that."""
        seconds, by_name = wake_times.wait_after(outcome, lease.attempt, settings, politeness, delay)
        if by_name and delay:
            queue = self._tables.queues.get(lease.queue_id)
            queue.block = max(queue.block, now + delay)
        if seconds > 0.0:
            self.rest(lease, seconds, now)

    def landed(self, lease: Lease, settings: QueueSettings, now: float) -> None:
        """Note that a download is over, and its queue's wake time set: another URI of the queue may go out."""
        queue = self._tables.queues.get(lease.queue_id)
        self._turns.refresh(queue)
        self._tables.leases.landed(lease)
        queue.landed += 1
        after = queue_states.after_landing(queue, settings, now)
        if after is not queue.state:
            self._turns.move(queue, after, now)

    def finish(
        self,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        reason: str,
        retire_queue: bool,
        delay: float | None,
        now: float,
    ) -> None:
        """Charge an attempt whose wake time is set, and put its URI and its queue where they belong.

        `Leases.end`, and the common case of `Rotation.move`, back into the ring, are written out for speed.
        """
        tables, counters, cost = self._tables, self._tables.counters, lease.cost
        queue = tables.queues.get(lease.queue_id)
        if queue.revision != counters.settings_revision:
            self._turns.refresh(queue)
        leases = tables.leases
        del leases.out[lease.id]
        leases.keys.discard(lease.key)
        queue.out -= 1
        queue.reserved -= cost
        if lease.landed:
            queue.landed -= 1
        if outcome is _SUCCESS:
            counters.succeeded += 1
            tables.pending.remove(queue, lease.key)
            charges.charge(queue, cost, 0)
            counters.expenditure += cost
        else:
            self._end(queue, lease, outcome, settings, reason, delay, now)
        state = queue.state
        rotation = tables.rotation
        after = RETIRED if retire_queue else queue_states.after_finish(queue, settings, now, rotation.best_waiting)
        if state is IN_PROCESS and after is READY:
            counters.in_process -= 1
            counters.ring_back = queue.position = counters.ring_back + 1
            rotation.ring.ids.append(queue.id)
            queue.state = READY
        elif state is not after:
            self._turns.move(queue, after, now)

    def _end(
        self,
        queue: QueueRecord,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        reason: str,
        delay: float | None,
        now: float,
    ) -> None:
        """Count and charge an attempt that was no success, and put its URI where it belongs."""
        tables, counters, key = self._tables, self._tables.counters, lease.key
        if outcome is Outcome.RETRY:
            self._retry(queue, lease, settings, reason, delay, now)
        elif outcome is Outcome.DEFERRED:
            counters.deferred += 1
            tables.pending.put_back(queue.id, key)
        elif outcome is Outcome.DISREGARDED:
            counters.disregarded += 1
            tables.pending.remove(queue, key)
        elif outcome is Outcome.FAILURE:
            counters.failed += 1
            queue.errors += 1
            tables.pending.remove(queue, key)
        else:
            queue.errors += 1
            self._bury(queue, key, tables.pending.value(key), reason or "dead", now)
        if charges.is_charged(outcome):
            penalty = charges.penalty(outcome, settings)
            charges.charge(queue, lease.cost, penalty)
            counters.expenditure += lease.cost + penalty

    def _retry(
        self, queue: QueueRecord, lease: Lease, settings: QueueSettings, reason: str, delay: float | None, now: float
    ) -> None:
        tables, key = self._tables, lease.key
        value = tables.pending.value(key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts + 1, deliveries)
        delay = wake_times.retry_delay(settings, delay)
        fate = uri_outcomes.fate(Outcome.RETRY, attempts + 1, settings, delay)
        if fate is Fate.DEAD:
            queue.errors += 1
            self._bury(queue, key, value, reason or "retries exhausted", now)
            return
        tables.counters.retried += 1
        if fate is Fate.DELAYED:
            tables.pending.remove(queue, key)
            tables.future.add(queue, key[4:], value, now + delay)
        else:
            tables.pending.put_back(queue.id, key, value)

    def _bury(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        """Move a URI to the dead letters."""
        self._tables.pending.remove(queue, key)
        self._tables.dead_letters.add(queue, key, value, reason, now)

    # -- lost leases

    def count_delivery(self, lease: Lease, now: float) -> None:
        """Count a delivery that nobody finished, and give up on its URI when it is one too many."""
        tables = self._tables
        queue, value = tables.queues.get(lease.queue_id), tables.pending.value(lease.key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts, deliveries + 1)
        if uri_outcomes.is_delivered_too_often(deliveries + 1, tables.in_force.frontier.max_deliveries):
            self._bury(queue, lease.key, value, "max deliveries", now)
        else:
            tables.pending.put_back(queue.id, lease.key, value)

    def release(self, lease: Lease, now: float, *, front: bool = False) -> None:
        """End a lease that nobody finished; its queue joins the ring, at its front or its back."""
        tables = self._tables
        queue = tables.queues.get(lease.queue_id)
        tables.pending.put_back(queue.id, lease.key)
        tables.leases.end(lease)
        queue.out -= 1
        queue.reserved -= lease.cost
        queue.landed -= lease.landed
        after = queue_states.after_lease_lost(queue, now)
        if after is not queue.state or (after is READY and front):
            self._turns.move(queue, after, now, front=front)

    def expire(self, now: float) -> None:
        """End the leases whose deadline has come."""
        if now >= self._tables.leases.next_expiry:
            due = self._tables.leases.due(now)
            for lease, _ in zip(due, self._tables.queues.each(lease.queue_id for lease in due), strict=True):
                self.count_delivery(lease, now)
                self.release(lease, now)
