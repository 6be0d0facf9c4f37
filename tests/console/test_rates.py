"""Rates over time: what was counted is spread over the time between two rows, and nothing is lost or counted twice."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.console.pages.rates import COUNTS, buckets
from budgetfrontier.store.series import SeriesRow
from tests.console.conftest import get
from tests.support import on_disk

pytestmark = pytest.mark.usefixtures("stopped_time")


def test_the_sum_of_the_parts_is_what_was_counted() -> None:
    rows = [SeriesRow(100.0 + 60 * n, succeeded=n * n) for n in range(20)]
    count = COUNTS["fetched"]
    for points in (1, 7, 120):
        found = buckets(rows, count, 100.0, 100.0 + 60 * 19, points)
        assert sum(found) * 60 * 19 / points == pytest.approx(19 * 19)
    assert buckets(rows, count, 100.0, 100.0 + 60 * 19, 19) == pytest.approx([(2 * n + 1) / 60 for n in range(19)])


def test_rows_before_the_time_and_between_runs_count_nothing() -> None:
    rows = [SeriesRow(0.0), SeriesRow(100.0, succeeded=50), SeriesRow(200.0, begins=True, succeeded=60)]
    assert buckets(rows, COUNTS["fetched"], 50.0, 250.0, 4) == pytest.approx([0.5, 0, 0, 0])
    assert buckets([], COUNTS["fetched"], 0.0, 100.0, 2) == [0, 0]


def test_runs_between_which_the_clock_was_set_back_count_once(tmp_path: Path) -> None:
    for run in range(2):
        clock = ManualClock(time.time() - 1000 + 20 * run)
        with on_disk(tmp_path / "job", clock) as frontier:
            for minute in range(5):
                frontier.schedule_many(f"http://a.test/{run}-{minute}-{n}" for n in range(10))
                frontier.commit()
                clock.advance(60.0)
                frontier.commit()
    rows = Reader(tmp_path / "job" / "frontier").series()
    assert sum(buckets(rows, COUNTS["discovered"], rows[0].time, rows[0].time + 500, 10)) * 50 == pytest.approx(100)
    shown = re.sub(r"<[^>]*>", " ", get(tmp_path / "job", "/rates?span=1h")[1])
    assert re.search(r"discovered\s+100\s", shown), shown


def test_the_page_shows_what_was_fetched_and_who_spent(tmp_path: Path) -> None:
    clock = ManualClock(time.time() - 1000)
    with on_disk(tmp_path / "job", clock, cost_policy="unit") as frontier:
        frontier.schedule_many(f"http://a.test/{n}" for n in range(30))
        for _ in range(10):
            for lease in frontier.lease(3):
                frontier.finish(lease)
            clock.advance(61.0)
            frontier.commit()
    status, text = get(tmp_path / "job", "/rates?span=1h")
    assert status == 200 and "<polyline" in text and ">a.test<" in text
    assert get(tmp_path / "job", "/rates?span=2y")[0] == 400
