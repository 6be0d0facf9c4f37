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
_SECONDS = 4
_halves = struct.Struct(">4e")


def count(row: list[Any], kind: int, seconds: float | None, links: int, new: int, size: int) -> None:
    """Count an attempt that has ended, or of LANDED its duration alone.

    Numbers are rounded at each attempt, so that a row is the same whenever it was written in between.
    """
    if kind != LANDED:
        if row[kind] == MOST:
            row[:_SECONDS] = [number >> 1 for number in row[:_SECONDS]]
        row[kind] += 1
    *_, duration, all_links, new_links, kib = row
    if seconds is not None and kind != DISREGARDED:
        number = row[SUCCESS] + row[RETRY] + row[FAILURE] + (kind == LANDED)
        duration = _mean(duration, seconds, number if number < WINDOW else WINDOW)
    if kind == SUCCESS:
        number = row[SUCCESS] if row[SUCCESS] < WINDOW else WINDOW
        all_links = _mean(all_links, links, number)
        new_links = _mean(new_links, new, number)
        kib = _mean(kib, size / UNIT, number)
    row[_SECONDS:] = _halves.unpack(_halves.pack(duration, all_links, new_links, kib))


def _mean(before: float, value: float, number: int) -> float:
    """Return a running mean of `number` values, the last of which is `value`."""
    if value > LARGEST:
        value = LARGEST
    return before + (value - before) / number if before == before else value  # NaN: it is the first


def charged(row: tuple[Any, ...]) -> int:
    """Return the least number of attempts charged to a queue: after counts were halved, the exact one is unknown."""
    return int(row[SUCCESS] + row[RETRY] + row[FAILURE])


def objection(row: tuple[Any, ...]) -> str | None:
    """Return why a row is invalid; None if it is valid."""
    means = row[_SECONDS:]
    if any(mean < 0 or mean == math.inf for mean in means):
        return "a mean is negative or infinite"
    if means[2] > means[1]:
        return "more links are new than there are"
    if (row[SUCCESS] == 0) != all(math.isnan(mean) for mean in means[1:]):
        return "means of pages that were never fetched" if row[SUCCESS] == 0 else "pages without means"
    return None
