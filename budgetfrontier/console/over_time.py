"""The curves and forecasts of a job from its totals over time, read once a minute."""

from __future__ import annotations

import time
from typing import NamedTuple

from budgetfrontier.model import Summary
from budgetfrontier.rules.forecasts import Forecast, Held, forecasts
from budgetfrontier.rules.rates import curves, window
from budgetfrontier.store.reader import Reader

SHOWN = ("fetched", "scheduled", "spent", "failed")
"""The figures that are shown."""

_HOUR, _DAY = 3600.0, 86_400.0
_FRESH = 60.0  # seconds for which what was read is good
_POINTS = 96


class Curve(NamedTuple):
    """The rate of one figure: of the last hour, and its curves over the last day and the last 30 days, per hour."""

    name: str
    hour: float | None
    day: list[float]
    month: list[float]


class OverTime(NamedTuple):
    """The curves of a job, and when its queues would be empty at the rate of the last hour."""

    when: float
    curves: list[Curve]
    forecast: Forecast


def read(reader: Reader, totals: Summary, *, now: float) -> OverTime | None:
    """Return the curves as of the last commit, None if there are no totals over time yet. O(2,200 rows)."""
    rows = reader.series(now - 31 * _DAY)
    hour = window(rows, now - _HOUR, now)
    if len(rows) < 2:
        return None
    day, month = curves(rows, now - _DAY, now, _POINTS), curves(rows, now - 30 * _DAY, now, _POINTS)
    found = [Curve(name, hour.rates[name].per_hour if hour.rates else None, day[name], month[name]) for name in SHOWN]
    waiting = totals.queued + totals.future
    by_rate = next(forecasts(hour, waiting=waiting, holds=Held(0, 0, 0.0, ""), limits={}))
    return OverTime(now, found, by_rate)


class OverTimeOfJob:
    """The curves of a job, good for a minute."""

    def __init__(self) -> None:
        self._last: OverTime | None = None
        self._read = 0.0

    def now(self, reader: Reader, totals: Summary) -> OverTime | None:
        """Return the curves, read again if they are older than a minute."""
        now = time.time()
        if abs(now - self._read) >= _FRESH:
            self._last, self._read = read(reader, totals, now=now), now
        return self._last
