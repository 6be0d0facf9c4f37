"""Listings of groups of queues, with their limits in force: all, the fullest first, or that of a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlUri, GroupRecord, QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.rules import group_limits
from budgetfrontier.rules.budgets import is_over_total, rest_of_total
from budgetfrontier.rules.forecasts import GroupTerms
from budgetfrontier.rules.quotas import share as quota_share
from budgetfrontier.settings.grouping import Grouping, fits
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.head_urls import HeadUrls
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


class GroupsInTurn:
    """The groups in which queues have their next turns, which choose those of queues that are new or whose settings
    have changed since. About 10 us for such a queue, else one look-up in memory.
    """

    def __init__(self, view: View, grouping: Grouping | None = None) -> None:
        """Take the settings in force of a view, or other groups."""
        self._view = view
        self._grouping = view.grouping() if grouping is None else grouping
        self._revision = view.counters().settings_revision
        self._reached = view.in_force().base.reached
        self._heads = HeadUrls(view)
        self._by_id: dict[int, GroupRecord] = {}
        self._by_name: dict[str, GroupRecord] = {}

    def of(self, queue: QueueRecord, url: str | None, label: str | None) -> GroupRecord | None:
        """Return the group of a queue with this head (None: it has none); what a new member has spent is added to it.

        None if it belongs to none. A group without queues has the id 0.
        """
        if not self._grouping.groups:
            return None
        if url is None or queue.group_revision == self._revision:
            return self._with_id(queue.group) if queue.group else None
        name = self._grouping.name_of(CrawlUri(url, source=label), queue.queue)
        if name is None:
            return None
        group = self._by_name.get(name)
        if group is None:
            found = self._view.txn.get(name.encode(), db=self._view.db[keys.GROUP_IDS])
            group = GroupRecord(name, 0) if found is None else self._with_id(keys.u32.unpack(found)[0])
            self._by_name[name] = group
        if not queue.expenditure or queue.group == group.id:
            return group
        return msgspec.structs.replace(group, expenditure=group.expenditure + queue.expenditure)

    def of_queue(self, queue: QueueRecord) -> GroupRecord | None:
        """Return the group of a queue, as `of` does."""
        is_chosen = not self._grouping.groups or queue.group_revision == self._revision
        return self.of(queue, *((None, None) if is_chosen else self._heads.subject(queue)))

    def rest(self, group: GroupRecord) -> int | None:
        """Return the rest of a group's total budget, if its URIs cost 1: -1 if it is over it, None if it has none."""
        total = self._grouping.limits_of(group.name).total_budget
        if is_over_total(group.expenditure, total, self._reached):
            return -1
        return rest_of_total(group.expenditure, total, self._reached)

    def terms(self, queue: QueueRecord, now: float) -> GroupTerms | None:
        """Return the terms of the group of a queue, for forecasts as of a time; None if it belongs to none."""
        group = self.of_queue(queue)
        if group is None:
            return None
        limits = self._grouping.limits_of(group.name)
        return GroupTerms(
            group.name, limits.politeness, self.rest(group), max(group_limits.clock(group, limits) - now, 0.0)
        )

    def spent(self, queue: QueueRecord) -> SpentGroup | None:
        """Return the group of a queue if that is over its total budget."""
        group = self.of_queue(queue)
        if group is None or self.rest(group) != -1:
            return None
        grouping, name = self._grouping, group.name
        degree = in_degree(self._view, grouping, name) if grouping.goes_by_links(name) else None
        return SpentGroup(name, group.expenditure, grouping.limits_of(name).total_budget, degree)

    def _with_id(self, group_id: int) -> GroupRecord:
        group = self._by_id.get(group_id)
        if group is None:
            group = self._by_id[group_id] = _record(self._view, group_id)
        return group


def terms_of(view: View, now: float | None = None) -> Callable[[QueueRecord], GroupTerms | None]:
    """Return the function that returns the terms of the group of a queue, for forecasts as of a time."""
    return partial(GroupsInTurn(view).terms, now=view.now() if now is None else now)


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
