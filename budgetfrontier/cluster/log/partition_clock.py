"""The clock of a partition: that of the broker which stamps its log, whatever the clock of the worker says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from budgetfrontier.clock import SHORTEST_STEP, WallClock

WINDOW: Final = 60.0
"""Seconds of which the entry counts that came fastest: the steady clock may run a little faster, or slower."""


class PartitionClock:
    """The time of a broker as of the entries that were read, and between them that of a clock which cannot be set.

    An entry says that it is later than its stamp; the one that was under way for the shortest time says best by how
    much the two clocks differ. A worker that was stopped, or whose clock was set, has the same time as all others.
    """

    def __init__(self, stamp: float, steady: Callable[[], float] = WallClock.steady) -> None:
        """Begin with the stamp of an entry that was read just now."""
        self._steady = steady
        now = steady()
        self._ahead = self._before = stamp - now
        """How far the broker's clock is ahead of the steady one at the least, as of this window, and the one before."""
        self._window_ends = now + WINDOW
        self._latest = stamp

    def __repr__(self) -> str:
        return f"<PartitionClock at {self.time():.3f}>"

    def time(self) -> float:
        """Return the time in epoch seconds. It stands still for a moment rather than go backwards by a little."""
        now = self.estimate()
        if self._latest - SHORTEST_STEP < now < self._latest:
            return self._latest
        self._latest = now
        return now

    def estimate(self) -> float:
        """Return the time in epoch seconds for any thread, which may be a little before what `time` has returned."""
        return self._steady() + max(self._ahead, self._before)

    def observe(self, stamp: float) -> None:
        """Take note of an entry that was read now, with the time at which the broker has appended it."""
        now = self._steady()
        if now > self._window_ends:
            self._before, self._ahead = self._ahead, stamp - now
            self._window_ends = now + WINDOW
        else:
            self._ahead = max(self._ahead, stamp - now)
