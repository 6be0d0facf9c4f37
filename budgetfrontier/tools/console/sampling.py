"""The totals of a job, read once a second while the console runs, and the rates that follow from them."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from budgetfrontier.core.model import Summary
from budgetfrontier.rules.rates import FIGURES, SHOWN
from budgetfrontier.storage.view import View

KEPT = 900
"""Seconds of samples that are kept."""
POINTS = 90
"""Points of a curve over them."""


class Sample(NamedTuple):
    """The totals at one time. `when` is that of the reading, `committed` that of the commit that was read."""

    when: float
    transaction: int
    committed: float
    totals: Summary


class RatePerSecond(NamedTuple):
    """A rate a second: over the last minute, over all that is kept, and as a curve."""

    name: str
    now: float
    mean: float
    curve: list[float]


def _count(totals: Summary, name: str) -> int:
    return sum(getattr(totals, total) for total in FIGURES[name])


def read(view: View, *, now: float) -> Sample:
    """Read the totals of a snapshot. O(1), about 0.1 ms."""
    counters = view.counters()
    return Sample(now, int(view.txn.id()), counters.time, view.summary(counters))


class Samples:
    """The samples of one job, at most one a second, for the last quarter of an hour."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=KEPT)

    def add(self, sample: Sample) -> None:
        """Add a sample. One that is older than the last makes all others useless: a clock was set back, or the frontier
        was replaced by another, such as a backup.
        """
        last = self.last
        if last and (sample.when < last.when or sample.committed < last.committed):
            self.clear()
        self._kept.append(sample)

    def clear(self) -> None:
        """Drop all samples."""
        self._kept.clear()

    @property
    def last(self) -> Sample | None:
        """The newest sample."""
        return self._kept[-1] if self._kept else None

    def seconds(self) -> float:
        """Return the time between the first and the last sample."""
        return self._kept[-1].when - self._kept[0].when if self._kept else 0.0

    def rates(self) -> list[RatePerSecond]:
        """Return the rates of the totals in SHOWN; none before there are two samples."""
        kept = list(self._kept)
        if len(kept) < 2 or kept[-1].when <= kept[0].when:
            return []
        last = kept[-1]
        recent = next(sample for sample in kept if sample.when >= last.when - 60 or sample is last)
        step = max(len(kept) // POINTS, 1)
        points = kept[::-step][::-1]
        found = []
        for name in SHOWN:
            values = [
                max(_count(after.totals, name) - _count(before.totals, name), 0) / (after.when - before.when)
                for before, after in pairwise(points)
                if after.when > before.when
            ]
            found.append(RatePerSecond(name, _rate(recent, last, name), _rate(kept[0], last, name), values))
        return found


def _rate(before: Sample, after: Sample, name: str) -> float:
    seconds = after.when - before.when
    return max(_count(after.totals, name) - _count(before.totals, name), 0) / seconds if seconds > 0 else 0.0
