"""The resolutions of the time series: for how long rows of each are kept, and how they are thinned then."""

from __future__ import annotations

from enum import IntEnum

_HOUR, _DAY = 3600, 86_400


class Resolution(IntEnum):
    """A resolution of the time series. The number is the first byte of its keys."""

    MINUTE = 1  # the totals, once a minute
    HOUR = 2  # the ends of the stretches of crawling in each hour
    DAY = 3  # those in each day
    BUSIEST_OF_HOUR = 4  # the queues that spent and fetched most in an hour
    BUSIEST_OF_DAY = 5


PERIODS = {
    Resolution.HOUR: _HOUR,
    Resolution.DAY: _DAY,
    Resolution.BUSIEST_OF_HOUR: _HOUR,
    Resolution.BUSIEST_OF_DAY: _DAY,
}
"""The seconds of the periods of each resolution."""

MOST_STRETCHES = 24
"""The stretches of crawling without a stop that are kept apart of an hour, or of a day; shorter stops are added up."""

INTERVAL = 60
"""Seconds between two rows of a running crawl."""

_THINNED = {
    Resolution.MINUTE: (Resolution.HOUR, _DAY + _HOUR),  # the last hour is compared with that of yesterday
    Resolution.HOUR: (Resolution.DAY, 30 * _DAY),
    Resolution.BUSIEST_OF_HOUR: (Resolution.BUSIEST_OF_DAY, 30 * _DAY),
}
"""The coarser resolution of each, and the age in seconds at which rows are thinned to it."""

THINNED = tuple(_THINNED)
"""The resolutions that are thinned."""


def hour_of(time: int) -> int:
    """Return the first second of the hour that contains a time."""
    return time - time % _HOUR


def next_row(now: float) -> float:
    """Return the time from which the row after one at `now` is due: the next full minute."""
    return now - now % INTERVAL + INTERVAL


def coarser(resolution: Resolution, oldest: int, now: float) -> tuple[Resolution, int, int] | None:
    """Return how the oldest rows of a resolution are thinned, None if they are not old enough.

    `oldest` is the time of the oldest. Returned are the coarser resolution, and the first second and the end of a
    period. All rows in it must have reached the age.
    """
    to, age = _THINNED[resolution]
    seconds = PERIODS[to]
    start = oldest - oldest % seconds
    return (to, start, start + seconds) if start + seconds + age <= now else None
