"""The groups of queues: when one waits, and how many of its queues may go on.

The clock of a group is ahead while the rest after the last fetch of any of its queues lasts, or while its bandwidth is
used up. Nor does a group let anything go out while as many of its fetches are in flight as may be, or while these have
reserved its budget.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from budgetfrontier.core.model import GroupRecord, QueueRecord
from budgetfrontier.rules.budgets import is_over_total

if TYPE_CHECKING:
    from budgetfrontier.settings.grouping import GroupLimits


class GroupState(StrEnum):
    """The state of a group of queues."""

    OVER_BUDGET = "over_budget"  # its total budget is spent: its queues retire in their turns
    OVER_QUOTA = "over_quota"  # a quota of it is used up: only listings tell, as its URIs are stopped like any others
    RESERVED = "reserved"  # its URIs that are leased have reserved the rest of its total budget
    WAITS = "waits"  # for its clock
    FULL = "full"  # as many fetches are in flight as may be
    OPEN = "open"


def add(group: GroupRecord, queue: QueueRecord, sign: int = 1) -> None:
    """Add a queue to the sums of a group, or with a sign of -1 take it out."""
    group.queues += sign
    group.out += sign * queue.out
    group.landed += sign * queue.landed
    group.reserved += sign * queue.reserved
    group.expenditure += sign * queue.expenditure
    group.bytes += sign * queue.bytes


def without_queues(group: GroupRecord) -> GroupRecord:
    """Return the record of a group with its sums set to zero, to be added again."""
    return replace(group, queues=0, out=0, landed=0, reserved=0, expenditure=0, bytes=0, parked=0)


def clock(group: GroupRecord, limits: GroupLimits) -> float:
    """Return the time from which on the queues of a group may go on, as far as its clock is concerned."""
    rest = group.wake_time if limits.politeness else 0.0
    return max(rest, group.busy_until) if limits.max_bandwidth else rest


def is_over_budget(group: GroupRecord, limits: GroupLimits, reached: bool) -> bool:
    """Return whether a group has spent its total budget, so that its queues are RETIRED in their turn."""
    return is_over_total(group.expenditure, limits.total_budget, reached)


def room(group: GroupRecord, limits: GroupLimits, reached: bool, most: int) -> int:
    """Return how many more queues of a group may go on, `most` at the most, if its clock lets them.

    Once URIs that are out have reserved what is left of its total budget, none may. If it is spent, its queues go on:
    each is RETIRED in its turn.
    """
    if state(group, limits, reached, inf) in (_FULL, _RESERVED):
        return 0
    if limits.max_in_flight is None:
        return most
    return min(max(limits.max_in_flight - (group.out - group.landed), 0), most)


def state(group: GroupRecord, limits: GroupLimits, reached: bool, now: float) -> GroupState:
    """Return the state of a group: what keeps its queues from a lease, if anything does; the first reason counts."""
    total, spent = limits.total_budget, group.expenditure
    is_short = 0 <= total <= spent + group.reserved  # else it is over nothing, which most calls find out by this alone
    if is_short and is_over_total(spent, total, reached):
        return _OVER_BUDGET
    if (limits.politeness and group.wake_time > now) or (limits.max_bandwidth and group.busy_until > now):
        return _WAITS
    most = limits.max_in_flight
    if most is not None and group.out - group.landed >= most:
        return _FULL
    if is_short and group.out and is_over_total(spent + group.reserved, total, reached):
        return _RESERVED
    return _OPEN


_OVER_BUDGET, _, _RESERVED, _WAITS, _FULL, _OPEN = GroupState  # an Enum look-up costs 0.1 us in CPython 3.11
