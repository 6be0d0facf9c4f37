"""Clocks that a frontier can run on: the system's, and one set by hand. Times are epoch seconds."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The interface that the engine needs of a clock: `time()` returns the current epoch seconds as a float."""

    def time(self) -> float: ...


class WallClock:
    """The system's time. It may go backwards; the engine itself prevents that within a run."""

    time = staticmethod(time.time)


class ManualClock:
    """A clock that moves only when `advance` or `set` is called, for tests and simulations.

    >>> clock = ManualClock(100.0)
    >>> clock.advance(2.5)
    102.5
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)

    def time(self) -> float:
        """Return the time that it was set to, in epoch seconds."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Advance the clock by `seconds` and return the new time."""
        self._now += seconds
        return self._now

    def set(self, now: float) -> None:
        """Set the clock to `now`. Going backwards is allowed: an engine has to cope with it."""
        self._now = float(now)
