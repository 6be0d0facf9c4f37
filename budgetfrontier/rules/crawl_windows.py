"""Crawl windows: whether one of them is open, and when it opens; exact over changes of summer time.

A window is open while the clock of its zone shows a time in it. So an hour that a change repeats counts twice, and a
time that it skips does not come on that day. All changes are found by looking at the clock of the zone alone: at the
next edge by the offset from UTC that holds now, or where that offset ends before it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from math import floor

from budgetfrontier.settings.windows import CrawlWindow, window

DAY = 86400
LONGEST = 15 * DAY
"""The longest wait for a window in seconds: a week, or two if a zone skips the day."""
_STEPS = 1000  # edges of one window that are looked at: a window has at most three a day


def is_open(one: CrawlWindow, when: float) -> bool:
    """Return whether a window is open at a time, in epoch seconds."""
    local = datetime.fromtimestamp(floor(when), one.zone)
    minutes, today = local.hour * 60 + local.minute, local.weekday()
    if one.start < one.end:
        return one.start <= minutes < one.end and today in one.days
    return (minutes >= one.start and today in one.days) or (minutes < one.end and (today - 1) % 7 in one.days)


def changes_at(one: CrawlWindow, when: float) -> float:
    """Return when a window opens that is closed at a time, or closes that is open; `when` and `LONGEST` at the most."""
    was_open, at = is_open(one, when), floor(when)
    for _ in range(_STEPS):
        at = _next_edge(one, at)
        if at - when > LONGEST:
            break
        if is_open(one, at) is not was_open:
            return float(at)
    return when + LONGEST


def _next_edge(one: CrawlWindow, at: int) -> int:
    """Return the next time, in whole seconds, at which a window may open or close."""
    offset = _offset(one, at)
    seconds = (at + offset) % DAY
    edges = (edge * 60 - seconds for edge in (one.start, one.end, 24 * 60))
    step = min(edge if edge > 0 else edge + DAY for edge in edges)
    if _offset(one, at + step) == offset:
        return at + step
    low, high = at, at + step  # the offset changes after `low`, and not after `high`
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(one, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _offset(one: CrawlWindow, at: int) -> int:
    return round((datetime.fromtimestamp(at, one.zone).utcoffset() or timedelta()).total_seconds())


def state(windows: Collection[str], now: float) -> tuple[float, float]:
    """Return when the first of some windows opens, 0.0 if one is open or there is none, and until when that holds."""
    if not windows:
        return 0.0, now + LONGEST
    found = [window(text) for text in windows]
    if not any(is_open(one, now) for one in found):
        opens = min(changes_at(one, now) for one in found)
        return opens, opens
    return 0.0, min(changes_at(one, now) for one in found if is_open(one, now))


def opens_at(windows: Collection[str], now: float) -> float:
    """Return when the first of some windows opens; 0.0 if one is open, or there is none."""
    return state(windows, now)[0]


class Hours:
    """The states of windows, which are computed when they have changed."""

    def __init__(self) -> None:
        self._known: dict[Collection[str], tuple[float, float, float]] = {}

    def opens_at(self, windows: Collection[str], now: float) -> float:
        """Return when the first of some windows opens; 0.0 if one is open, or there is none."""
        found = self._known.get(windows)
        if found is None or not found[1] <= now < found[2]:
            if len(self._known) >= 1000:
                self._known.clear()
            opens, until = state(windows, now)
            found = self._known[windows] = opens, now, until
        return found[0]
