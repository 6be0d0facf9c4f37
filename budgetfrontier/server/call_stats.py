"""Counts of the calls of a service: how many there were, how they ended, and how long they took.

Only the thread of gRPC's server changes them, so that they need no lock; any thread may read them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from math import inf
from typing import Final

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, inf)
"""Seconds up to which durations are counted together."""


class MethodStats:
    """The calls of one RPC since the server began."""

    __slots__ = ("counts", "ended", "open", "received", "seconds", "sent")

    def __init__(self) -> None:
        self.open = 0
        """Calls in progress."""
        self.received = 0
        """Messages read."""
        self.sent = 0
        """Messages sent."""
        self.ended: Counter[str] = Counter()
        """Calls that have ended, by the name of their status."""
        self.seconds = 0.0
        """The sum of the durations that were counted."""
        self.counts = [0] * len(BOUNDS)
        """The durations that were counted, by the first of BOUNDS that is not below them."""

    def took(self, seconds: float) -> None:
        """Count a duration."""
        self.seconds += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1
