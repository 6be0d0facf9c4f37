"""The reasons in a group of queues why one of them is not crawled: its clock, its fetches in flight, its budget."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.units import say_duration
from budgetfrontier.rules import group_limits
from budgetfrontier.rules.group_limits import GroupState
from budgetfrontier.storage.view import View


class GroupWait(NamedTuple):
    """Why a queue waits for its group, and until when, if that is known."""

    text: str
    until: float | None
    for_bytes: bool = False
    """Whether it waits for the group's bandwidth, which a `wake` of the queue ends."""


def wait_for_group(view: View, queue: QueueRecord, now: float) -> GroupWait | None:
    """Return why a SNOOZED queue waits for its group; None if it waits for itself."""
    group = view.group_of(queue) if queue.parked else None
    if group is None:
        return None
    limits, until, for_bytes = view.grouping().limits_of(group.name), None, False
    match group_limits.state(group, limits, view.in_force().base.reached, now):
        case GroupState.WAITS:
            until = group_limits.clock(group, limits)
            for_bytes = until != group.wake_time
            what = "bandwidth" if for_bytes else "politeness"
            text = f"its group {group.name} rests for {say_duration(until - now)} more: {what} that its queues share"
        case GroupState.FULL:
            in_flight = group.out - group.landed
            text = f"as many fetches of its group {group.name} are in flight as may be: {in_flight:,}"
        case GroupState.RESERVED:
            text = f"what is leased of its group {group.name} has reserved the rest of the group's budget"
        case GroupState.OVER_BUDGET:
            text = f"its group {group.name} has spent its total budget: it will retire in its turn"
        case GroupState.OPEN:
            text = f"it waits for its turn in its group {group.name}"
    others = f"; others that wait with it: {group.parked - 1:,}" if group.parked > 1 else ""
    return GroupWait(text + others, until, for_bytes)
