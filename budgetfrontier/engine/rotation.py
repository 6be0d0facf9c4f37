"""Moves of queues between the ring, the snoozed, the FIFOs of the inactive, and the retired.

The ring of READY queues is in memory; all other places are tables. `move` keeps a queue in exactly one place, and the
totals right.
"""

from __future__ import annotations

from collections.abc import Callable

from sortedcontainers import SortedDict

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.engine.group_table import AT_ONCE, GroupTable
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.engine.ring import Ring
from budgetfrontier.engine.snoozed_rows import SnoozedRows
from budgetfrontier.rules import queued_totals
from budgetfrontier.rules.queue_states import (
    ACTIVE,
    IN_PROCESS,
    INACTIVE,
    INELIGIBLE,
    NONE_WAITING,
    READY,
    RETIRED,
    SNOOZED,
    WORST_PRECEDENCE,
    while_waiting,
)
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters

NEVER = float("inf")
new_ring: type[Ring] = Ring if kernel is None else kernel.Ring
"""Makes the ring of READY queues of their ids."""


class Rotation:
    """The rotation of queues: their places and orders. Moves cost O(1) table accesses."""

    def __init__(self, env: Environment, counters: Counters, queues: QueueCache, groups: GroupTable) -> None:
        self._env = env
        self._counters = counters
        self._queues = queues
        self._groups = groups
        self.ring: Ring
        self.snoozed: SnoozedRows = SnoozedRows() if kernel is None else kernel.SnoozedRows()
        self.next_wake = NEVER
        """A lower bound of the wake times of the snoozed, and of groups that others wait for."""
        self.waiting: SortedDict[int, int] = SortedDict()
        """INACTIVE queues, by precedence."""
        self.floor = NONE_WAITING
        """The precedence from which on queues are INELIGIBLE where they would be INACTIVE."""
        self.best_waiting = NONE_WAITING
        """The best precedence of INACTIVE queues, at most the last one before the floor: an active queue beyond that
        yields."""
        self.on_move: Callable[[QueueRecord, QueueState], None] | None = None
        """A callback for changes of state that hooks may want: the queue as it is now, and its state before."""
        self._load()

    def _load(self) -> None:
        txn, db = self._env.txn, self._env.db
        cursor = txn.cursor(db[keys.ACTIVE])
        self.ring = new_ring(keys.u32.unpack(value)[0] for _, value in cursor.iternext() if value)
        cursor = txn.cursor(db[keys.INACTIVE])
        precedence = 0
        while cursor.set_range(keys.fifo.pack(precedence, 0)):
            precedence = keys.fifo.unpack(cursor.key())[0]
            self.waiting[precedence] = 0
            if precedence == WORST_PRECEDENCE:
                break
            precedence += 1
        if len(self.waiting) == 1:
            self.waiting[self.waiting.peekitem(0)[0]] = self._counters.inactive
        elif self.waiting:
            for key in cursor.iternext(keys=True, values=False) if cursor.first() else ():
                if key != keys.SENTINEL:
                    self.waiting[keys.fifo.unpack(key)[0]] += 1
        self._find_best()
        self.next_wake = self.first_wake()

    def _find_best(self) -> None:
        best = self.waiting.peekitem(0)[0] if self.waiting else NONE_WAITING
        self.best_waiting = min(best, self.floor - 1) if self.floor < NONE_WAITING else best

    def set_floor(self, floor: int | None) -> None:
        """Set the precedence floor; queues that wait are moved by `apply_floor`, one by one."""
        self.floor = NONE_WAITING if floor is None else floor
        self._find_best()

    def apply_floor(self, queue: QueueRecord) -> None:
        """Move an INACTIVE queue that is at the floor or beyond, or an INELIGIBLE one that is not any more."""
        if queue.state in (INACTIVE, INELIGIBLE) and queue.state is not while_waiting(queue.precedence, self.floor):
            self.move(queue, INACTIVE)

    def first_wake(self) -> float:
        """Return the earliest wake time of the snoozed and of groups, NEVER if there are none."""
        row = self.snoozed.first(self._env.snoozed)
        first = NEVER if row is None else float(keys.timed.unpack(row)[0])
        return min(first, self._groups.first_wake()) if self._counters.groups else first

    def move(
        self, queue: QueueRecord, state: QueueState, *, front: bool = False, precedence: int | None = None
    ) -> None:
        """Take a queue out of its place and put it where `state` says: at the back there, or the ring's front.

        It gets another `precedence` on the way, if one is given; a queue at the floor or beyond is not INACTIVE, but
        INELIGIBLE.

        Leaving RETIRED or INELIGIBLE, or going there, moves its URIs in or out of the totals. Moving within a state is
        to its back.
        """
        before = queue.state
        self._leave(queue, before)
        if precedence is not None:
            queue.precedence = precedence
        if state is INACTIVE:
            state = while_waiting(queue.precedence, self.floor)
        queue.state = state
        counters = self._counters
        if state is READY and front:
            counters.ring_front -= 1
            queue.position = counters.ring_front
            self.ring.appendleft(queue.id)
        elif state is READY:
            counters.ring_back += 1
            queue.position = counters.ring_back
            self.ring.append(queue.id)
        elif state is IN_PROCESS:
            counters.in_process += 1
        elif state is SNOOZED:
            counters.snoozed += 1
            self.snoozed.put(self._env.snoozed, keys.timed.pack(queue.wake_time, queue.id))
            if queue.wake_time < self.next_wake:
                self.next_wake = queue.wake_time
        elif state is INACTIVE:
            self._enter_fifo(queue)
        elif state is INELIGIBLE:
            counters.ineligible += 1
            counters.ineligible_back += 1
            queue.position = counters.ineligible_back
            key = keys.u64.pack(queue.position)
            self._env.txn.put(key, keys.u32.pack(queue.id), db=self._env.db[keys.INELIGIBLE])
        elif state is RETIRED:
            counters.retired += 1
            counters.retired_by_name += queue.by_name
            counters.retired_back += 1
            queue.position = counters.retired_back
            self._env.txn.put(keys.u64.pack(queue.position), keys.u32.pack(queue.id), db=self._env.db[keys.RETIRED])
        if before not in ACTIVE or state not in ACTIVE:
            queued, future_retired = queued_totals.change(queue, before, state)
            counters.queued += queued
            counters.future_retired += future_retired
        if queue.group and before is READY and state is not READY and not queue.out:
            self._left(queue.group)
        if self.on_move is not None and state is not before:
            self.on_move(queue, before)

    def park(self, queue: QueueRecord) -> None:
        """Let a READY queue wait for its group: it is SNOOZED, behind the others that wait for it."""
        self._leave(queue, READY)
        queue.state = SNOOZED
        self._counters.snoozed += 1
        self._groups.park(queue)
        if self.on_move is not None:
            self.on_move(queue, READY)

    def _left(self, group_id: int) -> None:
        """Wake a group that others wait for at the next lease: a queue that had been let go on did not lease."""
        group = self._groups.get(group_id)
        if group.parked:
            self._groups.set_row(group, AT_ONCE)
            self.next_wake = AT_ONCE

    def _leave(self, queue: QueueRecord, state: QueueState) -> None:
        counters = self._counters
        if state is READY:
            try:
                self.ring.remove(queue.id)
            except LookupError:
                raise Damage(f"queue {queue.queue} is READY, and not in the ring") from None
        elif state is IN_PROCESS:
            counters.in_process -= 1
        elif state is SNOOZED:
            counters.snoozed -= 1
            if queue.parked:
                self._groups.unpark(queue)
            else:
                self.snoozed.delete(self._env.snoozed, keys.timed.pack(queue.wake_time, queue.id))
        elif state is INACTIVE:
            self._leave_fifo(queue)
        elif state is INELIGIBLE:
            counters.ineligible -= 1
            self._env.txn.delete(keys.u64.pack(queue.position), db=self._env.db[keys.INELIGIBLE])
        elif state is RETIRED:
            counters.retired -= 1
            counters.retired_by_name -= queue.by_name
            self._env.txn.delete(keys.u64.pack(queue.position), db=self._env.db[keys.RETIRED])

    def _enter_fifo(self, queue: QueueRecord) -> None:
        counters = self._counters
        counters.inactive += 1
        counters.fifo_back += 1
        queue.position = counters.fifo_back
        precedence = queue.precedence
        key = keys.fifo.pack(precedence, queue.position)
        self._env.inactive.put(key, keys.u32.pack(queue.id))
        self.waiting[precedence] = self.waiting.get(precedence, 0) + 1
        if precedence < self.best_waiting:
            self.best_waiting = precedence

    def _leave_fifo(self, queue: QueueRecord) -> None:
        precedence = queue.precedence
        if precedence not in self.waiting:
            raise Damage(f"queue {queue.queue} is INACTIVE, and no such queue waits at precedence {precedence}")
        self._counters.inactive -= 1
        cursor, key = self._env.inactive, keys.fifo.pack(precedence, queue.position)
        if cursor.key() == key or cursor.set_key(key):  # `front_inactive` has left it there
            cursor.delete()
        self.waiting[precedence] -= 1
        if not self.waiting[precedence]:
            del self.waiting[precedence]
            self._find_best()

    def set_precedence(self, queue: QueueRecord, precedence: int) -> None:
        """Give a queue another precedence; one that waits goes to the back of that FIFO, or is INELIGIBLE."""
        if precedence == queue.precedence:
            return
        if queue.state is INACTIVE or (queue.state is INELIGIBLE and precedence < self.floor):
            self.move(queue, INACTIVE, precedence=precedence)
        queue.precedence = precedence

    def set_wake(self, queue: QueueRecord, wake_time: float) -> None:
        """Change a wake time; the row of a SNOOZED queue goes with it, unless that waits for its group."""
        if queue.state is SNOOZED and not queue.parked:
            self.snoozed.delete(self._env.snoozed, keys.timed.pack(queue.wake_time, queue.id))
            self.snoozed.put(self._env.snoozed, keys.timed.pack(wake_time, queue.id))
            if wake_time < self.next_wake:
                self.next_wake = wake_time
        queue.wake_time = wake_time

    def set_waits(self, queue: QueueRecord, waits: Waits) -> None:
        """Change all waits of a queue."""
        wake_time, queue.block, queue.delayed, queue.rest, queue.paced_until, queue.closed_until = waits
        self.set_wake(queue, wake_time)

    def write_snoozed(self) -> None:
        """Bring the table `snoozed` up to date, before a commit and before anything else reads it."""
        if self.snoozed:
            self.snoozed.flush(self._env.snoozed)

    def front_inactive(self) -> QueueRecord:
        """Return the front INACTIVE queue of the best precedence; there must be one."""
        cursor = self._env.inactive
        cursor.set_range(keys.FIRST)
        return self._queues.get(keys.u32.unpack(cursor.value())[0])

    def wake_due(self, now: float, limit: int, state_of: Callable[[QueueRecord], QueueState]) -> bool:
        """Move the first due snoozed queues to the states that `state_of` returns, by (wake time, queue id).

        Returns whether there may be more: `limit` were moved. O(1) before the earliest can be due.
        """
        if now < self.next_wake:
            return False
        cursor, moved = self._env.snoozed, 0
        while moved < limit and (row := self.snoozed.first(cursor)) is not None:
            wake_time, queue_id = keys.timed.unpack(row)
            if wake_time > now:
                break
            queue = self._queues.get(queue_id)
            self.move(queue, state_of(queue))
            moved += 1
        self.next_wake = self.first_wake()
        return moved == limit
