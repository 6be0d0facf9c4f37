"""The reasons in a group of queues why one of them is not crawled: its clock, its fetches in flight, its budget."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.units import say_duration
from budgetfrontier.rules import group_limits
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.view import View


class GroupWait(NamedTuple):
    """Why a queue waits for its group, and until when, if that is known."""

    text: str
    until: float | None


def wait_for_group(view: View, queue: QueueRecord, settings: QueueSettings, now: float) -> GroupWait | None:
    """Return why a SNOOZED queue waits for its group; None if it waits for itself."""
    group = view.group_of(queue) if queue.parked else None
    if group is None:
        return None
    limits = view.grouping().limits_of(group.name, settings)
    others = f"; others that wait with it: {group.parked - 1:,}" if group.parked > 1 else ""
    until = group_limits.clock(group, limits)
    if until > now:
        what = "politeness" if until == group.wake_time else "bandwidth"
        text = f"its group {group.name} rests for {say_duration(until - now)} more: {what} that its queues share"
        return GroupWait(text + others, until)
    in_flight = group.out - group.landed
    if limits.max_in_flight is not None and in_flight >= limits.max_in_flight:
        text = f"as many fetches of its group {group.name} are in flight as may be: {in_flight:,}"
    elif group.out:
        text = f"what is leased of its group {group.name} has reserved the rest of the group's budget"
    else:
        text = f"it waits for its turn in its group {group.name}"
    return GroupWait(text + others, None)


def over_group_budget(view: View, queue: QueueRecord, settings: QueueSettings) -> str | None:
    """Return what the group of a queue has spent, if that is over its total budget."""
    group = view.group_of(queue)
    if group is None:
        return None
    limits = view.grouping().limits_of(group.name, settings)
    if not group_limits.is_over_budget(group, limits, view.in_force().base.reached):
        return None
    return (
        f"its group {group.name} has spent {group.expenditure:,}, and its total budget is {limits.total_budget:,}: "
        "`group.total_budget` raises it"
    )
