"""The totals of several partitions, summed as those of one crawl. Pure rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
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
    of_each = {name: [one[name] for one in summaries] for name in summaries[0].keys()}  # noqa: SIM118 - it is no dict
    merged: dict[str, Any] = {name: sums(of) for name, of in of_each.items() if isinstance(of[0], int | dict)}
    merged["state"] = merged_state(one.state for one in summaries)
    reasons = [one.pause_reason for one in summaries if one.pause_reason]
    merged["pause_reason"] = next((one for one in reasons if one.startswith(DISK)), next(iter(reasons), None))
    return _summary(merged)


def sums(found: Sequence[Any]) -> Any:
    """Return the sum of figures, None if one is not known; of mappings, the sum of each figure.

    >>> sums([{"a": 1}, {"a": 2, "b": 3}]), sums([1, None])
    ({'a': 3, 'b': 3}, None)
    """
    if None in found:
        return None
    if isinstance(found[0], Mapping):
        names = dict.fromkeys(chain.from_iterable(found))
        return {name: sums([one[name] for one in found if name in one]) for name in names}
    return sum(found)


def least(found: Iterable[float | None]) -> float | None:
    """Return the least of some times, or seconds, as far as they are known; None if none is."""
    return min((each for each in found if each is not None), default=None)
