"""The time of an open frontier: it never goes backwards, and goes on as before if the system's clock is set."""

from __future__ import annotations

import logging

from budgetfrontier.clock import LAST_TIME, Clock, ClockSteps
from budgetfrontier.engine import arguments

log = logging.getLogger(__name__)


class FrontierTime:
    """The time by which one frontier goes from its opening to its end, in epoch seconds."""

    def __init__(self, clock: Clock, opened: float) -> None:
        self.read_clock = clock.time
        self.latest = opened
        """The time that `now` returned last."""
        self.skew = 0.0
        """How far the clock was set back, less how far it was set forward."""
        self.horizon = opened
        """The time from which on `now` looks whether the clock was set forward."""
        self._steps = ClockSteps(clock)

    def now(self) -> float:
        """Return the time, which is no earlier than the last one. Raises FrontierError for a clock that has none."""
        now = self.read_clock() + self.skew
        if not self.latest <= now <= self.horizon:
            arguments.time_of_clock(now)
            if step := self._steps.last():
                self.skew -= step
                now -= step
                log.warning(
                    "the system's clock was set %s by %.0f s: it counts from the next opening on",
                    "forward" if step > 0 else "back",
                    abs(step),
                )
            self.horizon = min(now + self._steps.look_every, LAST_TIME)
        if now < self.latest:  # set back by a little, or too coarse: time continues from the last value
            self.skew += self.latest - now
            return self.latest
        self.latest = now
        return now
