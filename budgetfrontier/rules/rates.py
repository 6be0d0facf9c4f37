"""Rates from the totals over a time: how much, how fast, and how evenly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from budgetfrontier.core.vocabulary import ANSWERS

FIGURES: dict[str, tuple[str, ...]] = {
    "fetched": ("succeeded", "failed", "retried", "given_up"),
    "finished": ("succeeded", "failed", "disregarded"),
    "succeeded": ("succeeded",),
    "failed": ("failed",),
    "buried": ("buried",),
    "retried": ("retried",),
    "disregarded": ("disregarded",),
    "discovered": ("scheduled",),
    "found": ("found",),
    "duplicates": ("duplicates",),
    "spent": ("expenditure",),
    "bytes": ("bytes",),
    **{name: (name,) for name in ANSWERS},
}
"""The figures of a time, each as a sum of totals; a figure with the name of a total is that total."""

SHOWN = ("fetched", "discovered", "spent", "failed", "buried", "bytes")
"""The figures that overviews show."""

LEAST = 60.0
"""The seconds of crawling after which rates are shown without a warning, and forecasts are made from them."""

FEWEST = 4
"""The fewest stretches of time from which a spread is given."""
_STRETCH = 30.0
"""The fewest seconds of such a stretch: rows are a minute apart, and nearer to each other around idle times."""


class Totals(Protocol):
    """A row of the totals at one time (epoch seconds): a `storage.series.SeriesRow`."""

    time: float
    begins: bool
    stopped: float
    run: int


Row = TypeVar("Row", bound=Totals)


class Rate(msgspec.Struct, frozen=True):
    """One figure of a time: how much of it, per hour, and the hourly rates of its slower and its faster quarter."""

    count: float
    per_hour: float
    low: float | None
    high: float | None


class Window(NamedTuple):
    """The rates of a time, as far as it is known."""

    seconds: float
    """Seconds of that time with a running crawl and known totals."""
    intervals: int
    """The stretches of time that the spreads of rates are of."""
    rates: dict[str, Rate]
    """By the names of FIGURES; empty if nothing is known of that time."""
    cut: float = 0.0
    """Seconds of the longest interval with changes of which only a part is in that time: counts of it are estimated."""


class ToldRate(msgspec.Struct, frozen=True):
    """A rate as people and programs are told it: a whole count, and no rates an hour of a moment."""

    count: int
    per_hour: float | None
    low: float | None
    high: float | None


def lasts(seconds: float) -> bool:
    """Return whether a crawl ran for long enough that rates are sure: those of a moment say nothing of hours."""
    return seconds >= LEAST


def told_rates(found: Window) -> dict[str, ToldRate]:
    """Return the figures of a time as they are told; none if nothing is known of it.

    Counts are rounded: those of a part of a time between two totals are estimated.
    """
    sure = lasts(found.seconds)
    return {
        name: ToldRate(round(rate.count), *((rate.per_hour, rate.low, rate.high) if sure else (None, None, None)))
        for name, rate in found.rates.items()
    }


def successive(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each row with the row of the same run before it, unless no crawling is between them: see `begins`.

    The rows of each run are in order of time. Those of two runs alternate if the clock was set back between them.
    """
    of_run: dict[int, Row] = {}
    for row in rows:
        before = of_run.get(row.run)
        if before is not None and not row.begins:
            yield before, row
        of_run[row.run] = row


def window(
    rows: Iterable[Totals],
    since: float,
    until: float,
    *,
    figures: Mapping[str, Sequence[str]] = FIGURES,
    throughout: bool = False,
) -> Window:
    """Return the figures between two times (epoch seconds), from rows in order of time.

    `figures` has the names to count, each with the totals to sum. With `throughout` it crawled in all of that time:
    stops that were added up are out of it.

    Only what a run did between two of its rows is counted. If a part of the time between them is in this time, that
    part of the change is counted, and the length of the longest of these intervals is that of `Window.cut`. Spreads are
    those of stretches of half a minute or more.
    """
    seconds, known, cut = 0.0, 0, 0.0
    counts = dict.fromkeys(figures, 0.0)
    speeds: dict[str, list[float]] = {name: [] for name in figures}
    stretch, done = 0.0, dict.fromkeys(figures, 0)
    for begin, end, ran, changes in _intervals(rows, since, until, figures):
        common = min(end, until) - max(begin, since)
        inside = min(common / ran, 1.0) if throughout else common / (end - begin)
        seconds += ran * inside
        if common < end - begin and any(changes.values()):
            cut = max(cut, end - begin)
        for name, change in changes.items():
            counts[name] += change * inside
            done[name] += change
        stretch += ran
        if stretch >= _STRETCH:
            known += 1
            for name, change in done.items():
                speeds[name].append(change / stretch * 3600)
            stretch, done = 0.0, dict.fromkeys(figures, 0)
    if not seconds:
        return Window(0.0, 0, {})
    rates = {name: _rate(counts[name], seconds, speeds[name]) for name in figures}
    return Window(seconds, known, rates, cut)


def together(windows: Sequence[Window]) -> Window:
    """Return the rates of several frontiers, such as the partitions of a crawl, in one time.

    Rates are added up, and so are their spreads: the truth is that of fewer slow and fast moments, or the same.
    """
    if len(windows) == 1:
        return windows[0]
    known = [one for one in windows if one.rates]
    if not known:
        return Window(0.0, 0, {})
    seconds = max(one.seconds for one in known)
    rates = {}
    for name in known[0].rates:
        parts = [one.rates[name] for one in known]
        count = sum(rate.count for rate in parts)
        low, high = added([rate.low for rate in parts]), added([rate.high for rate in parts])
        rates[name] = _with_spread(count, seconds, low, high)
    return Window(seconds, max(one.intervals for one in known), rates, max(one.cut for one in known))


def added(found: Sequence[float | None]) -> float | None:
    """Return the sum of some figures; None if one of them is not known."""
    known = [one for one in found if one is not None]
    return sum(known) if len(known) == len(found) else None


def _intervals(
    rows: Iterable[Totals], since: float, until: float, figures: Mapping[str, Sequence[str]] = FIGURES
) -> Iterator[tuple[float, float, float, dict[str, int]]]:
    """Yield the intervals of rows that overlap a time: the begin, the end, how long a process ran, and figures."""
    for before, after in successive(rows):
        if after.time <= since or before.time >= until:
            continue
        ran = after.time - before.time - after.stopped
        if ran > 0:
            changes = {
                name: max(sum(getattr(after, total) - getattr(before, total) for total in totals), 0)
                for name, totals in figures.items()
            }
            yield before.time, after.time, ran, changes


def _rate(count: float, seconds: float, speeds: list[float]) -> Rate:
    low = high = None
    if len(speeds) >= FEWEST:
        from statistics import quantiles  # the engine imports this module, and statistics takes milliseconds

        low, _, high = quantiles(speeds, n=4, method="inclusive")
    return _with_spread(count, seconds, low, high)


def _with_spread(count: float, seconds: float, low: float | None, high: float | None) -> Rate:
    """Return a rate, without a spread that does not contain it: few moments had most of it, or intervals differ."""
    per_hour = count / seconds * 3600
    if low is None or high is None or not low <= per_hour <= high:
        return Rate(count, per_hour, None, None)
    return Rate(count, per_hour, low, high)


def curves(rows: Iterable[Totals], since: float, until: float, points: int) -> dict[str, list[float | None]]:
    """Return the hourly rates of each figure in `points` equal parts of a time, None where nothing is known.

    A crawl that ran for less than LEAST in a part counts as if it had run so long, or all of a shorter part.

    The change between two rows is spread evenly over the time between them, as in `window`. O(rows + points).
    """
    length = (until - since) / points
    least = min(length, LEAST)
    seconds = [0.0] * points
    counts = {name: [0.0] * points for name in FIGURES}
    for begin, end, ran, changes in _intervals(rows, since, until):
        for point in range(max(int((begin - since) // length), 0), points):
            left = since + point * length
            if left >= end:
                break
            inside = max(min(end, left + length) - max(begin, left), 0.0) / (end - begin)
            seconds[point] += ran * inside
            for name, change in changes.items():
                counts[name][point] += change * inside
    return {
        name: [count / max(ran, least) * 3600 if ran else None for count, ran in zip(found, seconds, strict=True)]
        for name, found in counts.items()
    }
