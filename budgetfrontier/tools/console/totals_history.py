"""The history of the totals of a job, with its curves, for all pages and `top`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from budgetfrontier.reports import over_time
from budgetfrontier.reports.over_time import Curves, Series, curves_of
from budgetfrontier.rules.rates import SHOWN
from budgetfrontier.tools.console import missing_partitions
from budgetfrontier.tools.console.missing_partitions import MissingPartitions

_LACKING = 5.0  # seconds for which totals are good, at the most, that some partitions are missing from


class OverTimeOfJob:
    """The totals of a job over time, read again after some seconds."""

    def __init__(self, read: Callable[[float, float], Series], *, fresh: float = 10.0) -> None:
        """`read` returns the totals of a time until now; they are good for `fresh` seconds."""
        self._read, self._fresh = read, fresh
        self._series: Series = []
        self._curves: dict[tuple[str, tuple[str, ...]], Curves] = {}
        self._when = 0.0
        self._missing = MissingPartitions()
        self._reading = threading.Lock()

    def series(self) -> tuple[Series, float]:
        """Return the totals of the longest time and the one before it, and when they were read. O(2,200 rows)."""
        with self._reading:
            now = time.time()
            fresh = min(self._fresh, _LACKING) if self._missing.numbers else self._fresh
            if not 0 <= now - self._when < fresh:
                with missing_partitions.collected() as self._missing:
                    self._series = self._read(now - over_time.earliest(over_time.LONGEST), now)
                self._curves, self._when = {}, now
            missing_partitions.tell(self._missing.numbers, self._missing.sentence, self._missing.rest)
            return self._series, self._when

    def curves(self, span: str = "", figures: Sequence[str] = SHOWN) -> Curves:
        """Return the curves of a span, or of the one that fits."""
        found, now = self.series()
        with self._reading:
            asked = span, tuple(figures)
            if asked not in self._curves:
                self._curves[asked] = curves_of(found, now, span, figures)
            return self._curves[asked]
