"""The two clocks that a frontier can run on. Times are epoch seconds."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the engine asks of a clock: the time now, in epoch seconds, as a float."""

    def time(self) -> float: ...


class WallClock:
    """The system's time. The engine itself keeps it from going backwards within a run."""

    time = staticmethod(time.time)


class ManualClock:
    """A clock that moves only when told to, for tests and simulations.

    >>> clock = ManualClock(100.0)
    >>> clock.advance(2.5)
    102.5
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> float:
        """Move on by `seconds` and return the new time."""
        self._now += seconds
        return self._now

    def set(self, now: float) -> None:
        """Jump to `now`, backwards too: an engine must live with that."""
        self._now = float(now)
