"""The groups of queues at work: which queue belongs to which, which have to wait for theirs, and which go on.

A queue whose group waits is *parked* in its turn: it is SNOOZED, and waits for the group instead of a time. The group
itself wakes at one time, so that the wait of any number of queues costs one row. When it may go on, as many of its
parked queues as have room join the ring's back, those first that have waited longest.

A group with parked queues never sticks: it has a wake time, or a lease of it is out, whose end lets others go on, or
one of its queues is READY. If the last of those leaves the ring otherwise, the group wakes at the next lease.
"""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.core.model import CrawlUri, Lease, QueueRecord, QueueState
from budgetfrontier.engine.group_table import AT_ONCE, LiveGroup
from budgetfrontier.engine.rotation import Rotation
from budgetfrontier.engine.tables import Tables
from budgetfrontier.rules import bandwidth, group_limits
from budgetfrontier.rules.budgets import is_over_total
from budgetfrontier.rules.group_limits import GroupState, state
from budgetfrontier.rules.queue_states import READY, RETIRED, SNOOZED
from budgetfrontier.settings.grouping import GroupLimits

OPEN, WAITS = GroupState.OPEN, GroupState.WAITS  # an Enum look-up costs 0.1 us in CPython 3.11
CALLED = 100
"""Queues of a group that join the ring at a time, at the most."""


class GroupTurns:
    """Lets queues wait for their groups. O(1) for each event, whatever the number of queues of a group."""

    def __init__(
        self,
        tables: Tables,
        clip: Callable[[QueueRecord, float], None],
        awake: Callable[[QueueRecord], QueueState],
    ) -> None:
        self._tables = tables
        self._table = tables.groups
        self._live = tables.groups.live.get
        self._rotation: Rotation = tables.rotation
        self._counters = tables.counters
        self._clip = clip
        self._awake = awake

    # -- the turn of a queue

    def stops(self, queue: QueueRecord, uri: CrawlUri, now: float) -> bool:
        """Return whether a READY queue must not lease a URI, for its group; if it may, the URI is counted as out."""
        if not queue.group:
            return False
        find = self._live
        group, limits = find(queue.group) or self._table.limited(queue.group)
        most, total = limits.max_in_flight, limits.total_budget
        if (  # else it is OPEN: copies `group_limits.state`
            limits.politeness
            or limits.max_bandwidth
            or 0 <= total <= group.expenditure + group.reserved
            or (most is not None and group.out - group.landed >= most)
        ):
            found = state(group, limits, self._table.reached, now)
            if found is WAITS and self._clock(group, limits, now) <= now:  # it was set by a wrong clock
                found = state(group, limits, self._table.reached, now)
            if found is not OPEN:
                return True
        group.out += 1
        group.reserved += uri.cost  # type: ignore[operator]  # it comes from the key
        return False

    def stop(self, queue: QueueRecord, now: float) -> None:
        """Retire a READY queue that `stops` has stopped, if its group has spent its budget, or let it wait for that.

        If it does not wait for a time, URIs are out, and their ends let it go on.
        """
        group, limits = self._table.limited(queue.group)
        if group_limits.is_over_budget(group, limits, self._table.reached):
            self._rotation.move(queue, RETIRED)
            return
        self._rotation.park(queue)
        wake = self._clock(group, limits, now)
        if wake > now:
            self._wake_at(group, wake)

    def _clock(self, group: LiveGroup, limits: GroupLimits, now: float) -> float:
        """Return the clock of a group; one that is further ahead than any delay was set by a wrong clock."""
        latest = now + self._tables.longest_delay
        group.wake_time = min(group.wake_time, latest)
        group.busy_until = min(group.busy_until, now + bandwidth.LONGEST)
        return group_limits.clock(group, limits)

    def is_over_budget(self, queue: QueueRecord, name: str | None, *, moves: bool) -> bool:
        """Return whether a queue is retired in its turn in the group with this name: that has spent its total budget.

        What a queue has spent that is not in it yet comes to it in that turn; without `moves`, it is not retired.
        """
        if name is None:
            return False
        group, total = self._table.find(name), self._table.limits_of(name).total_budget
        spent = 0 if group is None else group.expenditure
        if group is None or queue.group != group.id:
            if not moves:
                return False
            spent += queue.expenditure
        return is_over_total(spent, total, self._table.reached)

    def choose(self, queue: QueueRecord, uri: CrawlUri) -> None:
        """Let a queue join the group that the settings choose for its head, and leave that before."""
        grouping = self._tables.in_force.grouping
        queue.group_revision = 0 if grouping.waits_for_address(uri) else self._counters.settings_revision
        name = grouping.name_of(uri, queue.queue)
        before = self._table.get(queue.group) if queue.group else None
        if name == (None if before is None else before.name):
            return
        if before is not None:
            group_limits.add(before, queue, -1)
            if not before.queues:
                self._table.delete(before)
            elif before.parked:
                self._wake_at(before, AT_ONCE)
        queue.group = 0
        self._tables.tallies.regrouped(queue)
        if name is not None:
            group = self._table.named(name)
            queue.group = group.id
            group_limits.add(group, queue)

    # -- the end of an attempt

    def ended(
        self,
        queue: QueueRecord,
        lease: Lease,
        spent: int,
        size: int,
        began: float,
        rest: float,
        now: float,
    ) -> None:
        """Count the end of an attempt for the group of a queue that has one, and let others of its queues go on.

        Copies `released`.
        """
        find = self._live
        group, limits = find(queue.group) or self._table.limited(queue.group)
        group.expenditure += spent
        if size:
            group.bytes += size
            if limits.max_bandwidth:
                group.busy_until = bandwidth.busy_until(group.busy_until, began, size, limits.max_bandwidth, now)
        if rest > 0.0:
            group.wake_time = max(group.wake_time, now + rest)
        group.out -= 1
        group.reserved -= lease.cost
        if lease.landed:
            group.landed -= 1
        if group.parked:
            self.go_on(group, now)

    def released(self, queue: QueueRecord, lease: Lease, now: float) -> None:
        """Count the end of a lease for the group of its queue; `ended` does so for one with an outcome."""
        group = self._table.get(queue.group)
        group.out -= 1
        group.landed -= lease.landed
        group.reserved -= lease.cost
        self.go_on(group, now)

    def landed(self, queue: QueueRecord, rest: float, now: float) -> None:
        """Count a download that is over."""
        group = self._table.get(queue.group)
        group.landed += 1
        if rest > 0.0:
            group.wake_time = max(group.wake_time, now + rest)
        self.go_on(group, now)

    # -- the queues that wait

    def wake_due(self, now: float, limit: int) -> int:
        """Let the queues of groups that are due go on, by (wake time, id); return the number of these groups."""
        due = self._table.due(now, limit)
        for group_id in due:
            group = self._table.get(group_id)
            self._table.set_row(group, None)
            self.go_on(group, now)
        return len(due)

    def go_on(self, group: LiveGroup, now: float) -> None:
        """Let as many parked queues of a group go on as have room; if it has to wait, until then."""
        if not group.parked:
            return
        limits = self._table.limited(group.id)[1]
        wake = self._clock(group, limits, now)
        if wake > now:
            self._wake_at(group, wake)
            return
        room = group_limits.room(group, limits, self._table.reached, CALLED)
        for _ in range(CALLED):
            if not room or not group.parked:
                break
            queue = self._tables.queues.get(self._table.first_parked(group))
            self._clip(queue, now)
            self._rotation.move(queue, SNOOZED if queue.wake_time > now else self._awake(queue))
            room -= queue.state is READY
        else:
            if group.parked:
                self._wake_at(group, AT_ONCE)

    def end_wait(self, queue: QueueRecord) -> None:
        """End the clock of the group for which a queue waits; its other waiting queues go on at the next lease."""
        group = self._table.get(queue.group)
        group.wake_time = group.busy_until = 0.0
        self._wake_at(group, AT_ONCE)

    def reconsider(self, now: float) -> None:
        """Compute the clocks of waiting groups again, by the limits in force now. O(groups that wait)."""
        self._wait_anew(now, now)

    def _wait_anew(self, after: float, now: float) -> None:
        """Let the groups that wake after a time wait for their clocks, by the limits in force."""
        for group_id in self._table.ahead(after):
            group, limits = self._table.limited(group_id)
            wake = self._clock(group, limits, now)
            self._wake_at(group, wake if wake > now else AT_ONCE)

    def _wake_at(self, group: LiveGroup, when: float) -> None:
        self._table.set_row(group, when)
        self._rotation.next_wake = min(self._rotation.next_wake, when)

    def follow_clock(self, now: float) -> None:
        """Clip the wake times of groups that are further ahead than any delay, at an opening."""
        self._wait_anew(now + self._tables.longest_delay, now)
