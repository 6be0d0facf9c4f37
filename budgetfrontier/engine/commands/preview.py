"""The preview of a change of adjustments: the queues that it retires or revives, and the spend that it allows them.

A preview changes nothing, and takes any view: that of the engine, or that of a Reader, which does not delay an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import tee
from math import inf
from typing import Any

import msgspec

from budgetfrontier.core.model import CrawlUri, GroupRecord, QueueRecord
from budgetfrontier.engine.commands.floor_preview import FloorPreview
from budgetfrontier.engine.commands.selection import hands_out
from budgetfrontier.engine.commands.survey import Change, QueueSums, ValueCounts, effect_of, look, unknown_of
from budgetfrontier.rules.budgets import is_over_total, rest_of_total, total_of
from budgetfrontier.rules.crawl_windows import Hours
from budgetfrontier.rules.queue_states import ACTIVE, INELIGIBLE, RETIRED, is_revived_by_change
from budgetfrontier.rules.quotas import counted_from_now
from budgetfrontier.settings import plugins, windows
from budgetfrontier.settings.grouping import Grouping
from budgetfrontier.settings.matching import Match
from budgetfrontier.settings.overrides import Effective, QueueSettings
from budgetfrontier.storage.budgets_in_force import Price, PricesOf, affordable
from budgetfrontier.storage.group_listing import GroupsInTurn
from budgetfrontier.storage.quota_use import QuotasInForce
from budgetfrontier.storage.view import View

NAMED = 1000
"""The most queues that a preview names; it counts them all."""


def _goes_by_next_uri(view: View, match: Match) -> bool:
    """Return whether some URIs of a queue may match and others not: then the next one decides, while it is the next."""
    if match.by_key:
        return False
    assign = plugins.resolve("assignment", view.settings()[0].frontier.queue_assignment_policy)
    return not match.by_authority or not getattr(assign, "one_host", False)


_Bounds = tuple[int, bool, bool, bool, tuple[str, int] | None]
"""The bounds of the spend of a queue.

Its total budget, whether that is spent once it is reached, whether it has sessions at all, whether a quota of its next
URI is used up, and its group with the rest of that one's total budget: -1 if that is spent, None without one.
"""
_STOPPED = 3
_OF_WINDOWS = {(False, True): "closed_count", (True, True): "still_closed", (True, False): "opened_count"}
"""The counts of queues by whether their crawl windows are closed before and after a change."""


class _Side:
    """The bounds of queues before a change, or after it."""

    def __init__(self, view: View, effective: Effective, grouping: Grouping) -> None:
        self.quotas = QuotasInForce(view, effective, grouping)
        self.groups = GroupsInTurn(view, grouping)

    def bounds(
        self, queue: QueueRecord, url: str, label: str | None, settings: QueueSettings, group: GroupRecord | None
    ) -> _Bounds:
        """Return the bounds of a queue with the URL and the label of its next URI, and its group in its next turn."""
        stopped, of_group = False, None
        if self.quotas.kinds and queue.queued:
            stopped = any(self.quotas.used_up(CrawlUri(url, source=label), queue))
        if group is not None:
            rest = self.groups.rest(group)
            of_group = None if rest is None else (group.name, rest)
        sessions = settings.balance_replenish_amount > 0
        return total_of(queue, settings), settings.reached, sessions, stopped, of_group


def _is_out(queue: QueueRecord, bounds: _Bounds, settings: QueueSettings) -> bool:
    """Return whether a queue is retired on its turn."""
    total, reached, sessions, stopped, of_group = bounds
    over = is_over_total(queue.expenditure, total, reached) or (of_group is not None and of_group[1] == -1)
    return over or not sessions or (stopped and settings.force_retire)


class _Sum(msgspec.Struct):
    """The spend of some queues."""

    uris: int = 0
    floor: int = 0
    ceiling: int | None = 0

    def add(self, uris: int, floor: int, ceiling: int | None) -> None:
        self.uris += uris
        self.floor += floor
        self.ceiling = None if self.ceiling is None or ceiling is None else self.ceiling + ceiling

    def within(self, rest: int) -> _Sum:
        """Return what of it the rest of a total budget pays for, with URIs at their average cost."""
        ceiling = rest if self.ceiling is None else min(self.ceiling, rest)
        if self.floor <= rest:
            return _Sum(self.uris, self.floor, ceiling)
        return _Sum(self.uris * rest // self.floor, rest, ceiling)


class _Spend:
    """The spend of queues: the cost of the URIs that they hold, and the rest of their budgets once more come."""

    def __init__(self) -> None:
        self._plain = _Sum()
        self._shared: dict[str, tuple[int, _Sum]] = {}
        """By group with a total budget: the rest of that, and the spend of the queues in it."""
        self.disregarded = 0

    def add(self, queue: QueueRecord, prices: Iterable[Price], bounds: _Bounds) -> None:
        """Add a queue that is not over its bounds, with the prices of its URIs."""
        total, reached, _, _, of_group = bounds
        uris, spent, disregarded = affordable(prices, queue, total, reached=reached)
        self.disregarded += disregarded
        left = rest_of_total(queue.expenditure, total, reached)
        ceiling = None if left is None else max(left, spent)  # a last URI that costs more goes further
        to = self._plain if of_group is None else self._shared.setdefault(of_group[0], (of_group[1], _Sum()))[1]
        to.add(uris, spent, ceiling)

    def sum(self) -> _Sum:
        """Return the spend of all queues that were added, within the budgets of their groups."""
        found = _Sum()
        for one in (self._plain, *(shared.within(rest) for rest, shared in self._shared.values())):
            found.add(one.uris, one.floor, one.ceiling)
        return found


def preview(
    view: View,
    change: Change,
    *,
    now: float,
    in_scope: Callable[[CrawlUri], bool] | None = None,
) -> dict[str, Any]:
    """Return the effect of a change: the survey, which queues retire and revive, and how much they could then spend.

    A change of crawl windows has three more counts: `closed_count` of queues outside of theirs after the change alone,
    `still_closed` before and after it, `opened_count` before it alone. `held_until`: when the first of them opens.
    Queues that a precedence floor makes INELIGIBLE, or no more (`eligible`), are neither: they are counted apart.

    RETIRED queues that do not match count, too: any change of settings revives them.

    `in_scope` returns whether the crawl would fetch a URI; otherwise it is disregarded, and costs nothing. As of the
    view. O(queues), about 5 us each, and the pending URIs that those with changed budgets would hand out, 1 us each;
    O(named and RETIRED queues) if named.
    """
    groups, values, limits = ValueCounts(change.names), change.values(), change.limits()
    sides = [_Side(view, *side) for side in zip((change.before, change.after), change.groupings, strict=True)]
    group_of, (bounds_before, bounds_after) = sides[0].groups.of, (side.bounds for side in sides)
    floor, standing, prices = FloorPreview(view), QueueSums(), PricesOf(view, in_scope)
    named: dict[str, list[str]] = {"retired": [], "revived": [], "ineligible": [], "eligible": []}
    counts = {f"{kind}_count": 0 for kind in named} | {"still_over": 0, "by_name": 0}
    counts |= {"closed_count": 0, "still_closed": 0, "opened_count": 0}
    hours, of_windows = Hours(), windows.NAME in change.names
    reviving, lifted, before, after = (_Spend() for _ in range(4))
    changed, held_back, held_until = 0, 0, inf
    for queue, url, label, matched in look(view, change.match, others=True):
        if not (matched or queue.state is RETIRED):
            continue
        if matched:
            old, new = values(url, queue.queue, label)
            standing.add(queue)
            groups.add(old, new, limits(url, queue.queue, label))
        else:
            old = new = change.before.for_uri(url, queue.queue, label)
        if not is_revived_by_change(queue):
            counts["by_name"] += matched
            continue
        group = group_of(queue, url, label)  # a change changes the limits of groups, not which queues are in them
        was, will = bounds_before(queue, url, label, old, group), bounds_after(queue, url, label, new, group)
        was_out, is_out = _is_out(queue, was, old), _is_out(queue, will, new)
        kind, held = _fate(queue, was_out=was_out, is_out=is_out, held=floor.holds(queue, url, new))
        if kind:
            counts[f"{kind}_count"] += 1
            if len(named[kind]) < NAMED:
                named[kind].append(queue.queue)
        if kind in ("revived", "eligible"):
            if not (is_out or will[_STOPPED]):
                (reviving if kind == "revived" else lifted).add(queue, prices(queue), will)
        elif was != will and queue.state is not RETIRED and not held:
            changed += 1
            spends_before, spends_after = not (was_out or was[_STOPPED]), not (is_out or will[_STOPPED])
            if spends_before and spends_after:
                then, now_on = tee(prices(queue))
                before.add(queue, then, was)
                after.add(queue, now_on, will)
            elif spends_before:
                before.add(queue, prices(queue), was)
            elif spends_after:
                after.add(queue, prices(queue), will)
        still = queue.queued > 0 and is_out and not held and (was_out or queue.state is RETIRED)
        counts["still_over"] += matched and still
        opens = 0.0
        if of_windows and queue.queued and hands_out(queue):
            opens = hours.opens_at(new.windows, now)
            if what := _OF_WINDOWS.get((hours.opens_at(old.windows, now) > 0, opens > 0)):
                counts[what] += 1
            held_until = min(held_until, opens or inf)
        if (held or is_out or will[_STOPPED] or opens) and hands_out(queue):
            held_back += queue.queued
    kinds = [side.quotas.kinds for side in sides]
    found = effect_of(groups.survey(change, view.counters().time, unknown_of(view, change))) | {"then": standing.then()}
    if in_scope is not None:
        found["disregarded"] = reviving.disregarded + lifted.disregarded + after.disregarded
    return {
        **found,
        "warnings": [*change.warnings, *(counted_from_now(*kinds) if view.counters().succeeded else ())],
        "by_next_uri": _goes_by_next_uri(view, change.match),
        "quotas": any(kinds),
        "held_back": 0 if counts["revived_count"] or counts["eligible_count"] else held_back,
        "held_until": held_until if held_until < inf else 0.0,
        **named,
        **counts,
        **_told(reviving),
        "eligible_spend": _told(lifted),
        "others": {"queues": changed, "before": _told(before), "after": _told(after)},
    }


def _fate(queue: QueueRecord, *, was_out: bool, is_out: bool, held: bool) -> tuple[str, bool]:
    """Return the list of a dry run that a queue belongs to, "" for none, and whether the change leaves it INELIGIBLE.

    `held`: after the change, its precedence is at the floor or beyond. A queue that has its turn retires first.
    """
    if not queue.queued:
        return "", False
    held = held and not (queue.state in ACTIVE and is_out)
    if held:
        return "" if queue.state is INELIGIBLE else "ineligible", True
    if queue.state is RETIRED:
        return "" if is_out else "revived", False
    if is_out:
        return "" if was_out else "retired", False
    return "eligible" if queue.state is INELIGIBLE else "", False


def _told(spend: _Spend) -> dict[str, Any]:
    found = spend.sum()
    return {"uris": found.uris, "spend": found.floor, "ceiling": found.ceiling}
