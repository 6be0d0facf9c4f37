"""The selection of queues by a command: by a pattern, as `adjust` matches them, and by their states."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any

from budgetfrontier.core.effect_words import PACE
from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.core.patterns import Pattern
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.grouping import fits, objection
from budgetfrontier.settings.matching import GROUP, Match, parse_match, spellings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.head_urls import HeadUrls
from budgetfrontier.storage.records import NAMED_QUEUES, expanded
from budgetfrontier.storage.uri_values import expand
from budgetfrontier.storage.view import View

_PACES = 20
"""Values of an interval, or of a limit, for each of which an effect counts the queues; those with others are summed."""


def check_pattern(text: str) -> None:
    """Raise FrontierError for a regular expression that is not valid."""
    try:
        Pattern(text)
    except ValueError as e:
        raise FrontierError(f"{text!r} is not a valid regular expression: {e}") from None


def check(args: dict[str, Any]) -> None:
    """Raise FrontierError for a selection that could not be made."""
    check_match(args)
    states_of(args)


def check_match(args: dict[str, Any], *, of_uris: bool = False) -> None:
    """Raise FrontierError for a pattern that a command cannot select by; `of_uris`: it selects URIs, and not queues."""
    match = parse_match(args["match"])
    if match.kind == "sheet":
        raise FrontierError("nothing is selected by its sheet; give what the sheet is associated with")
    if match.kind == "group" and of_uris:
        raise FrontierError("a group is of queues: URIs are not selected by it")
    if match.kind == "regex":
        check_pattern(match.text.partition(":")[2])


def states_of(args: dict[str, Any]) -> frozenset[QueueState]:
    """Return the states that a selection names, all by default. Raises FrontierError."""
    given = args.get("states")
    try:
        return frozenset(QueueState if given is None else map(QueueState, given))
    except ValueError as e:
        raise FrontierError(f"{e}: the states are {', '.join(QueueState)}") from None


class ChosenUrls:
    """The URLs that a command chooses: by a pattern, with their queues, and by a regular expression."""

    def __init__(self, args: dict[str, Any]) -> None:
        self._match = parse_match(args["match"])
        self._pattern = Pattern(args["pattern"]) if args.get("pattern") else None

    def test(self, url: str, queue: str) -> bool:
        """Return whether a URL of a queue is chosen."""
        return self._match.matches(url, queue) and (self._pattern is None or bool(self._pattern.search(url)))


class SelectedQueues:
    """The queues that a command selects: those in some states, which a pattern matches.

    A pattern on URIs is tested on the head URI of a queue, or on the one placed last if there is none.
    """

    def __init__(self, args: dict[str, Any]) -> None:
        self._match = parse_match(args["match"])
        self._states = states_of(args)

    def test(self, view: View) -> Callable[[QueueRecord], bool]:
        """Return the test of a queue, as of a view."""
        match, states, of_queue = self._match, self._states, test_of_queue(view, self._match)
        if of_queue is not None:
            return lambda queue: queue.state in states and of_queue(queue)
        heads = HeadUrls(view)

        def matches(queue: QueueRecord) -> bool:
            if queue.state not in states:
                return False
            url, label = heads.subject(queue)
            url = url or expand(queue.last_enqueued, queue.queue)
            return bool(url) and match.matches(url, queue.queue, label)

        return matches

    def queues(self, view: View, at: int = 0, upto: int | None = None) -> Iterator[tuple[int, QueueRecord | None]]:
        """Yield the ids of the queues from one on, in order, with the records of those that are selected.

        A pattern that names queues reads no others.
        """
        test = self.test(view)
        if self._match.keys:
            named = filter(None, map(view.find_queue, spellings(self._match.keys)))
            found: Iterator[QueueRecord] = iter(sorted(named, key=lambda queue: queue.id))
        else:
            found = view.compact_queues(max(at, 1))
        for queue in found:
            if upto is not None and queue.id > upto:
                return
            if queue.id >= at:
                yield queue.id, expanded(queue) if test(queue) else None


def summary() -> dict[str, Any]:
    """Return the effect of a command on selected queues before the first of them.

    `queues` are the first hundred that it has changed, `states` counts them by the states before and after, and `uris`
    are those that they hold.
    """
    return {"matched": 0, "changed": 0, "uris": 0, "states": {}, "queues": []}


def count(effect: dict[str, Any], queue: QueueRecord, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Count a queue in the effect of a command on selected queues; return whether it was changed."""
    effect["matched"] += 1
    if before == after:
        return False
    effect["changed"] += 1
    effect["uris"] += queue.queued
    moved = str(before["state"]) if before["state"] == after["state"] else f"{before['state']} -> {after['state']}"
    effect["states"][moved] = effect["states"].get(moved, 0) + 1
    if len(effect["queues"]) < NAMED_QUEUES:
        effect["queues"].append(queue.queue)
    return True


def count_still_over(effect: dict[str, Any], is_over: bool) -> None:
    """Count a queue in the effect of `unretire` if it is over a budget or quota: it is RETIRED again on its turn."""
    if is_over:
        effect["still_over"] = effect.get("still_over", 0) + 1


def count_still_closed(effect: dict[str, Any], op: str, before: dict[str, Any], now: float) -> None:
    """Count a queue in the effect of `wake` if it waited for its crawl windows: it does so again from its turn on."""
    if op == "wake" and before.get("closed_until", 0) > now:
        effect["still_closed"] = effect.get("still_closed", 0) + 1


def count_paces(effect: dict[str, Any], name: str, look: dict[str, Any], given: Collection[str]) -> None:
    """Count a queue in a part of an effect by those values of its pace that are given, as JSON."""
    for one in PACE:
        if one in given:
            counts = effect.setdefault(name, {}).setdefault(one, {})
            number = look[one]
            value = json.dumps(float(number) if one == "interval" and number is not None else number)
            value = value if value in counts or len(counts) < _PACES else ""
            counts[value] = counts.get(value, 0) + 1


def hands_out(queue: QueueRecord) -> bool:
    """Return whether a queue hands out its URIs, now or once its turn comes."""
    return queue.state not in (QueueState.RETIRED, QueueState.INELIGIBLE)


def test_of_queue(view: View, match: Match) -> Callable[[QueueRecord], bool] | None:
    """Return the test of a queue by its group or its key; None for a pattern that is tested on URIs."""
    if match.kind == "group":
        is_in = _in_groups(view, match.text.removeprefix(GROUP))
        return lambda queue: is_in(queue.group)
    return (lambda queue: match.matches("", queue.queue)) if match.by_key else None


def _in_groups(view: View, pattern: str) -> Callable[[int], bool]:
    """Return the test whether the group with an id has a name that a pattern NAME or NAME/VALUE fits."""
    groups = view.settings()[0].groups
    if error := objection(Override(GROUP + pattern, {}), groups):
        raise FrontierError(error)
    matches = fits(pattern, groups)

    @lru_cache(10_000)
    def is_in(group_id: int) -> bool:
        name = group_listing.name_of(view, group_id)
        return name is not None and matches(name)

    return is_in
