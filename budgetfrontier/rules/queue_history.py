"""The history of the attempts of a queue: counts by outcome, and running means, in sixteen bytes. Pure rules."""

from __future__ import annotations

import math
import struct
from typing import Any

from budgetfrontier.core.model import Outcome

MOST = (1 << 16) - 1
"""The largest count. Before one becomes larger, all four are halved: their ratios stay."""
WINDOW = 64
"""The number of attempts that a running mean is about. More would lose more to the precision of its numbers."""
LARGEST = 65504.0
"""The largest mean that can be stored."""
UNIT = 1024
"""Sizes are counted in KiB, so that the largest mean is 64 MiB."""
NEW: list[Any] = [0, 0, 0, 0, math.nan, math.nan, math.nan, math.nan]
"""A row before the first attempt: SUCCESS, RETRY, FAILURE, DISREGARDED; seconds, links, new links, KiB."""
SUCCESS, RETRY, FAILURE, DISREGARDED, LANDED = range(5)
KINDS = {
    Outcome.SUCCESS: SUCCESS,
    Outcome.RETRY: RETRY,
    Outcome.FAILURE: FAILURE,
    Outcome.DEAD: FAILURE,
    Outcome.DISREGARDED: DISREGARDED,
}
"""The count of each outcome; DEFERRED has none."""
_SECONDS, _LINKS, _NEW_LINKS, _SIZE = range(4, 8)
_half = struct.Struct(">e")


def count(row: list[Any], kind: int, seconds: float | None, links: int, new: int, size: int) -> None:
    """Count an attempt that has ended, or of LANDED its duration alone.

    Numbers are rounded at each attempt, so that a row is the same whenever it was written in between.
    """
    if kind != LANDED:
        if row[kind] == MOST:
            row[:_SECONDS] = [number >> 1 for number in row[:_SECONDS]]
        row[kind] += 1
    if seconds is not None and kind != DISREGARDED:
        row[_SECONDS] = _mean(row[_SECONDS], seconds, row[SUCCESS] + row[RETRY] + row[FAILURE] + (kind == LANDED))
    if kind == SUCCESS:
        number = row[SUCCESS]
        row[_LINKS] = _mean(row[_LINKS], links, number)
        row[_NEW_LINKS] = _mean(row[_NEW_LINKS], new, number)
        row[_SIZE] = _mean(row[_SIZE], size / UNIT, number)


def _mean(before: float, value: float, number: int) -> float:
    """Return a running mean with one value more, rounded to half precision; `number`: of values, that one included."""
    value = min(value, LARGEST)
    if before == before:  # not NaN
        value = before + (value - before) / min(number, WINDOW)
    return float(_half.unpack(_half.pack(value))[0])


def charged(row: tuple[Any, ...]) -> int:
    """Return how many attempts were charged to a queue, at the least: halved counts tell no more."""
    return int(row[SUCCESS] + row[RETRY] + row[FAILURE])


def objection(row: tuple[Any, ...]) -> str | None:
    """Return why a row cannot be that of a queue; None if it can."""
    means = row[_SECONDS:]
    if any(mean < 0 or mean == math.inf for mean in means):
        return "a mean is negative or infinite"
    if means[2] > means[1]:
        return "more links are new than there are"
    if (row[SUCCESS] == 0) != all(math.isnan(mean) for mean in means[1:]):
        return "means of pages that were never fetched" if row[SUCCESS] == 0 else "pages without means"
    return None
