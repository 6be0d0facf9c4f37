"""The thinning of the totals over time: of an hour, or a day, the ends of its stretches of crawling remain."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf
from operator import attrgetter

from msgspec.structs import replace

from budgetfrontier.rules.series_periods import MOST_STRETCHES
from budgetfrontier.storage.series import TOTALS, SeriesRow

_LEVELS = ("queued", "in_process", "future", "dead", "seen")
_GROWING = tuple(name for name in TOTALS if name not in _LEVELS)


def thinned(rows: Iterable[SeriesRow]) -> list[SeriesRow]:
    """Return the rows of a period that are kept: of each stretch of crawling its beginning, if it is there, and end.

    Of more than MOST_STRETCHES, those with the shortest stops between them become one.
    """
    stretches: list[list[SeriesRow]] = []
    of_run: dict[int, list[SeriesRow]] = {}
    for row in sorted(rows, key=attrgetter("time")):
        mine = of_run.get(row.run)
        if mine is not None and row.begins and mine[-1].begins:
            mine[-1] = row
        elif mine is None or row.begins:
            mine = of_run[row.run] = [row]
            stretches.append(mine)
        elif mine[-1].begins:
            mine.append(row)
        else:
            row.stopped += mine[-1].stopped
            mine[-1] = row
    if len(stretches) > MOST_STRETCHES:
        crawled = [one for one in stretches[:-1] if not one[-1].begins]  # not commands
        stretches = _with_longest_stops([*crawled, stretches[-1]])
    return [row for one in stretches for row in one]


def _with_longest_stops(stretches: list[list[SeriesRow]]) -> list[list[SeriesRow]]:
    """Return at most MOST_STRETCHES stretches, unless the clock was set back: the others are added up."""
    stops = [
        after[0].time - before[-1].time if before[0].begins and after[0].begins else inf
        for before, after in pairwise(stretches)
    ]
    short = sorted(range(len(stops)), key=stops.__getitem__)[: max(len(stretches) - MOST_STRETCHES, 0)]
    closed = {number for number in short if 0 <= stops[number] < inf}
    found = stretches[:1]
    for number, stretch in enumerate(stretches[1:]):
        if number in closed:
            found[-1] = _joined(found[-1], stretch)
        else:
            found.append(stretch)
    return found


def _joined(one: list[SeriesRow], other: list[SeriesRow]) -> list[SeriesRow]:
    """Return two stretches as one, with what each did, and the time between them as stopped."""
    (first, last), (again, end) = (one[0], one[-1]), (other[0], other[-1])
    between = {name: getattr(first, name) + getattr(again, name) - getattr(last, name) for name in _GROWING}
    stopped = sum(row.stopped for row in (*one[1:], *other[1:])) + again.time - last.time
    return [
        replace(first, run=end.run, **between),
        replace(end, begins=False, stopped=stopped),
    ]
