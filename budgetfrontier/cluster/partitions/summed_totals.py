"""The totals of several partitions, summed as those of one crawl. Pure rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.rules.crawl_states import DISK

_summary: Callable[[Any], Summary] = converter(Summary)
_IN_ORDER = (
    CrawlState.RUNNING,
    CrawlState.PAUSING,
    CrawlState.PAUSED,
    CrawlState.FINISHED,
    CrawlState.NEW,
    CrawlState.TERMINATED,
)


def merged_state(states: Iterable[CrawlState]) -> CrawlState:
    """Return the state of a crawl from those of its partitions: RUNNING if one is, FINISHED if all have nothing to do.

    >>> print(merged_state([CrawlState.NEW, CrawlState.FINISHED]), merged_state([CrawlState.NEW]))
    FINISHED NEW
    """
    found = set(states)
    return next((state for state in _IN_ORDER if state in found), CrawlState.NEW)


def merged_summary(summaries: Sequence[Summary]) -> Summary:
    """Return the sums of the counters of partitions; a pause for a disk is told although others go on."""
    first, *others = summaries
    merged: dict[str, Any] = {}
    for name in first.keys():  # noqa: SIM118 - it is no dict
        values = [one[name] for one in (first, *others)]
        if isinstance(values[0], dict):
            merged[name] = _added(values)
        elif isinstance(values[0], int):
            merged[name] = sum(values)
    merged["state"] = merged_state(one.state for one in summaries)
    reasons = [one.pause_reason for one in summaries if one.pause_reason]
    merged["pause_reason"] = next((one for one in reasons if one.startswith(DISK)), next(iter(reasons), None))
    return _summary(merged)


def merged_ready_in(found: Iterable[float | None]) -> float | None:
    """Return the seconds until something may be leased from one of several partitions; None: never."""
    return min((each for each in found if each is not None), default=None)


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total
