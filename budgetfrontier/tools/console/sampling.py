"""The totals of a job, read once a second while the console runs, and the rates that follow from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from budgetfrontier.core.model import Summary
from budgetfrontier.rules.rates import FIGURES, SHOWN
from budgetfrontier.storage.view import View

KEPT = 61
"""Seconds of samples that are kept."""


class Sample(NamedTuple):
    """The totals at one time. `when` is that of the reading, `committed` that of the commit that was read."""

    when: float
    transaction: int
    committed: float
    totals: Summary


class RatePerSecond(NamedTuple):
    """A rate a second, over the last minute."""

    name: str
    now: float


def with_fetched(rates: Sequence[RatePerSecond], fetched: float | None) -> list[RatePerSecond]:
    """Return the rates with that of the verdict, if it is known, in place of the sampled one: a page has one rate."""
    found = {rate.name: rate for rate in rates}
    if fetched is not None:
        found["fetched"] = RatePerSecond("fetched", fetched)
    return list(found.values())


def _count(totals: Summary, name: str) -> int:
    return sum(getattr(totals, total) for total in FIGURES[name])


def read(view: View, *, now: float) -> Sample:
    """Read the totals of a snapshot. O(1), about 0.1 ms."""
    counters = view.counters()
    return Sample(now, int(view.txn.id()), counters.time, view.summary(counters))


class Samples:
    """The samples of one job, at most one a second, for the last minute."""

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

    def rates(self) -> list[RatePerSecond]:
        """Return the rates of the totals in SHOWN; none before there are two samples."""
        kept = list(self._kept)
        if len(kept) < 2 or kept[-1].when <= kept[0].when:
            return []
        last = kept[-1]
        recent = next(sample for sample in kept if sample.when >= last.when - 60 or sample is last)
        return [RatePerSecond(name, _rate(recent, last, name)) for name in SHOWN]


def _rate(before: Sample, after: Sample, name: str) -> float:
    seconds = after.when - before.when
    return max(_count(after.totals, name) - _count(before.totals, name), 0) / seconds if seconds > 0 else 0.0
