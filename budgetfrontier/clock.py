"""Clocks that a frontier can run on: the system's, and one set by hand. Times are epoch seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

SHORTEST_STEP: Final = 1.0
"""Seconds from which on a difference between two clocks is a step, and not their drift."""
LAST_TIME: Final = float(1 << 53)
"""Epoch seconds up to which a clock may go: later ones would be no whole seconds, nor fit into records."""
_HELD_UP = 0.1  # seconds between two readings that are too far apart to be compared


class Clock(Protocol):
    """The interface that the engine needs of a clock: `time()` returns the current epoch seconds as a float."""

    def time(self) -> float: ...


_steady = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class WallClock:
    """The system's time. It may be set back or forward; within a run, the engine goes on from where it was.

    `steady` counts seconds, those for which the machine is suspended too on Linux, and cannot be set.
    """

    steady = staticmethod(_steady)
    time = staticmethod(time.time)


class ClockSteps:
    """The steps by which a clock is set, found by comparison with its `steady`; a clock without one has no steps."""

    def __init__(self, clock: Clock) -> None:
        self._time = clock.time
        self._steady: Callable[[], float] | None = getattr(clock, "steady", None)
        self.look_every = math.inf if self._steady is None else SHORTEST_STEP
        """Seconds after which another `last` is due, by the clock."""
        self._before = self._read()

    def last(self) -> float:
        """Return the seconds by which the clock was set since the last call: negative for back, 0.0 for no step."""
        (then, steady_then), (now, steady_now) = self._before, self._read()
        self._before = now, steady_now
        step = (now - then) - (steady_now - steady_then)
        return step if self._steady and abs(step) >= SHORTEST_STEP else 0.0

    def _read(self) -> tuple[float, float]:
        """Return the time of both clocks, read at once."""
        if self._steady is None:
            return 0.0, 0.0
        while True:
            steady, now = self._steady(), self._time()
            if self._steady() - steady < _HELD_UP:
                return now, steady


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
        """Advance the clock by `seconds`, or set it back by a negative number; return the new time."""
        self._now += float(seconds)
        return self._now

    def set(self, now: float) -> None:
        """Set the clock to `now`. Going backwards is allowed: an engine has to cope with it."""
        self._now = float(now)
