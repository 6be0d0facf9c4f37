"""The samples of a job's totals."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.tools.console import sampling
from tests.support import on_disk, pages


def test_samples_of_a_frontier_that_was_replaced_by_an_older_one_are_dropped(tmp_path: Path) -> None:
    samples = sampling.Samples()
    for now, commit, count in ((1.0, 5000.0, 2), (2.0, 4000.0, 90)):
        with on_disk(tmp_path / str(count), ManualClock(commit)) as frontier:
            frontier.schedule_many(pages("A", count))
        with Reader(tmp_path / str(count) / "frontier") as reader, reader.view() as view:
            samples.add(sampling.read(view, now=now))
    assert samples.rates() == [] and samples.last is not None and samples.last.when == 2.0
