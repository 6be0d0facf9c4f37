"""Curves over a time: those of partitions are added up, point by point."""

from __future__ import annotations

import pytest

from budgetfrontier.reports.over_time import curves_of
from budgetfrontier.storage.series import SeriesRow


def rows(minutes: range, a_minute: int) -> list[SeriesRow]:
    """The totals of some minutes in which so many URIs were fetched each, and as many wait."""
    return [SeriesRow(60.0 * at, succeeded=at * a_minute, queued=a_minute) for at in minutes]


def test_the_curves_of_partitions_are_added_up_where_they_are_known() -> None:
    both, early = rows(range(61), 2), rows(range(31), 3)
    found = curves_of([both, early], 3600.0, "1h", ("fetched",))
    assert found.figures[0].points == [5 * 60.0] * 30 + [2 * 60.0] * 30
    assert found.figures[0].rate is not None and found.figures[0].rate.count == 2 * 60 + 3 * 30
    assert found.queued == [5] * 60


def test_the_span_holds_the_partition_that_began_first() -> None:
    old, new = rows(range(0, 600, 10), 1), rows(range(595, 600), 1)
    assert curves_of([new, old], 600 * 60.0).span == curves_of([old], 600 * 60.0).span == "1d"
    assert curves_of([], 0.0).figures[0].points == [None] * 20


@pytest.mark.parametrize(
    ("began", "ended", "span"),
    [(9, 0, "10m"), (59, 0, "1h"), (61, 0, "1h"), (359, 9, "1h"), (361, 0, "1d"), (61, 11, "1d"), (3000, 0, "1d")],
)
def test_the_first_hours_of_a_crawl_that_goes_on_are_shown_by_the_hour(began: int, ended: int, span: str) -> None:
    """One that has stopped is shown whole."""
    assert curves_of([rows(range(began - ended + 1), 5)], began * 60.0).span == span
