"""Listings of groups of queues, with their limits in force: all, the fullest first, or that of a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import NamedTuple

import msgspec

from budgetfrontier.core.model import GroupRecord, QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.rules import group_limits
from budgetfrontier.rules.budgets import rest_of_total
from budgetfrontier.rules.forecasts import GroupTerms
from budgetfrontier.rules.quotas import share as quota_share
from budgetfrontier.settings.grouping import Grouping, fits
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.records import decode_group
from budgetfrontier.storage.view import View

LISTED = 100
"""Groups in a report, at the most, unless all are asked for."""


class GroupRow(msgspec.Struct, kw_only=True):
    """A group of queues, with its limits in force."""

    group: str
    state: group_limits.GroupState
    queues: int
    parked: int
    """SNOOZED queues that wait for it."""
    in_flight: int
    max_in_flight: int | None
    """None without a limit."""
    expenditure: int
    total_budget: int
    """-1 without one."""
    bytes: int
    in_degree: int | None
    """The registered domains that linked to its own at the last ranking; None without `total_budget: star`."""
    quota_share: float | None
    """The part of its fullest quota that is used; None without quotas."""
    wake_time: float
    """When its clock lets the next fetch go, in epoch seconds; 0.0 if it does not wait for that."""

    @property
    def share(self) -> float:
        """The part of its total budget that is spent; 0.0 without one."""
        return self.expenditure / max(self.total_budget, 1) if self.total_budget >= 0 else 0.0


GROUP_FIELDS = GroupRow.__struct_fields__


class GroupsListed(msgspec.Struct):
    """The number of groups in each state, and the rows of the fullest."""

    states: dict[str, int] = {}
    fullest: list[GroupRow] = []

    @property
    def count(self) -> int:
        """The number of all groups."""
        return sum(self.states.values())


def rows(view: View, now: float) -> Iterator[GroupRow]:
    """Yield every group, in order of creation. O(groups)."""
    if view.counters().groups:
        row = _row_of(view, now)
        yield from (row(decode_group(value)) for _, value in view.items(keys.GROUPS))


def matched(view: View, now: float) -> Iterator[GroupRow]:
    """Yield the group of each definition with a `match`, if it has queues."""
    if view.counters().groups:
        row = _row_of(view, now)
        for definition in view.grouping().groups:
            found = view.txn.get(definition.name.encode(), db=view.db[keys.GROUP_IDS])
            if definition.match is not None and found is not None:
                yield row(_record(view, keys.u32.unpack(found)[0]))


def listed(view: View, now: float, limit: int = LISTED) -> GroupsListed:
    """Return the states of all groups and the fullest of them: see `fullness`. O(groups); memory: `limit` rows."""
    states: Counter[str] = Counter()

    def counted() -> Iterator[GroupRow]:
        for row in rows(view, now):
            states[row.state] += 1
            yield row

    fullest = nlargest(limit, counted(), key=fullness)
    return GroupsListed(dict(states), fullest)


def fullness(row: GroupRow) -> tuple[float, int, int]:
    """Return the sort key: the part of its total budget or quota that is used, the queues that wait, all its queues."""
    return max(row.share, row.quota_share or 0.0), row.parked, row.queues


def group_of(view: View, queue: QueueRecord, now: float) -> GroupRow | None:
    """Return the group of a queue; None if it belongs to none, or has had no turn yet."""
    return _row_of(view, now)(_record(view, queue.group)) if queue.group else None


def name_of(view: View, group_id: int) -> str | None:
    """Return the name of a group by its id; None for 0, which is none."""
    return _record(view, group_id).name if group_id else None


def terms_of(view: View, now: float | None = None) -> Callable[[int], GroupTerms]:
    """Return the function that returns the terms of a group, by its id, for forecasts as of a time."""
    at = view.now() if now is None else now
    grouping = view.grouping()
    rest = rest_of(view, grouping)

    def terms(group_id: int) -> GroupTerms:
        group = _record(view, group_id)
        limits = grouping.limits_of(group.name)
        wait = max(group_limits.clock(group, limits) - at, 0.0)
        return GroupTerms(group.name, limits.politeness, rest(group_id), wait)

    return terms


def rest_of(view: View, grouping: Grouping) -> Callable[[int], int | None]:
    """Return a function from the id of a group to the rest of its total budget, if its URIs cost 1.

    The rest is -1 if the group is over its total budget, and None if it has none.
    """
    reached = view.in_force().base.reached

    def rest(group_id: int) -> int | None:
        group = _record(view, group_id)
        limits = grouping.limits_of(group.name)
        if group_limits.is_over_budget(group, limits, reached):
            return -1
        return rest_of_total(group.expenditure, limits.total_budget, reached)

    return rest


def in_groups(view: View, pattern: str | None) -> Callable[[QueueRecord], bool]:
    """Return the test whether a queue is in a group that a pattern NAME or NAME/VALUE fits; None: any. O(groups)."""
    if pattern is None:
        return lambda queue: True
    matches = fits(pattern, view.settings()[0].groups)
    records = (decode_group(value) for _, value in view.items(keys.GROUPS))
    ids = frozenset(record.id for record in records if matches(record.name))
    return lambda queue: queue.group in ids


def _record(view: View, group_id: int) -> GroupRecord:
    value = view.txn.get(keys.u32.pack(group_id), db=view.db[keys.GROUPS])
    if value is None:
        raise Damage(f"group {group_id} has no record")
    return decode_group(value)


def _row_of(view: View, now: float) -> Callable[[GroupRecord], GroupRow]:
    """Return the function that makes the row of a group."""
    reached = view.in_force().base.reached
    return partial(_row, view=view, grouping=view.grouping(), reached=reached, now=now)


def in_degree(view: View, grouping: Grouping, name: str) -> int | None:
    """Return how many registered domains linked to that of a group; None if its budget does not depend on it."""
    definition, _, domain = name.partition("/")
    return view.in_degree(domain) if definition in grouping.star else None


def _row(group: GroupRecord, *, view: View, grouping: Grouping, reached: bool, now: float) -> GroupRow:
    """Return the row of a group, with the limits in force for it."""
    limits = grouping.limits_of(group.name)
    wake_time = group_limits.clock(group, limits)
    state = group_limits.state(group, limits, reached, now)
    used = quota_share(view.tally(OF_GROUP, group.name), limits.quotas.items()) if limits.quotas else None
    if used is not None and used >= 1.0 and state is not group_limits.GroupState.OVER_BUDGET:
        state = group_limits.GroupState.OVER_QUOTA
    return GroupRow(
        group=group.name,
        state=state,
        queues=group.queues,
        parked=group.parked,
        in_flight=group.out - group.landed,
        max_in_flight=limits.max_in_flight,
        expenditure=group.expenditure,
        total_budget=limits.total_budget,
        bytes=group.bytes,
        wake_time=wake_time if wake_time > now else 0.0,
        in_degree=in_degree(view, grouping, group.name),
        quota_share=used,
    )


class SpentGroup(NamedTuple):
    """A group that is over its total budget: what it has spent, and that budget."""

    name: str
    expenditure: int
    total_budget: int
    in_degree: int | None
    """The number of other registered domains that link to its own; None if the budget does not depend on it."""

    def text(self) -> str:
        """Return a sentence without its end that says so."""
        return f"the group {self.name} has spent {self.expenditure:,} of its total budget of {self.total_budget:,}"

    @property
    def cause(self) -> str:
        """Where the total budget comes from, if it comes from the links to its domain."""
        if self.in_degree is None:
            return ""
        return f", for {self.in_degree:,} other domain{' links' if self.in_degree == 1 else 's link'} to it"


def over_group_budget(view: View, queue: QueueRecord) -> SpentGroup | None:
    """Return the group of a queue if that is over its total budget."""
    group = view.group_of(queue)
    if group is None:
        return None
    grouping = view.grouping()
    limits = grouping.limits_of(group.name)
    if not group_limits.is_over_budget(group, limits, view.in_force().base.reached):
        return None
    degree = in_degree(view, grouping, group.name) if grouping.goes_by_links(group.name) else None
    return SpentGroup(group.name, group.expenditure, limits.total_budget, degree)
