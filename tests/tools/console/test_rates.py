"""Rates over time: the same figures on every page, in `top` and in the report, whatever happened in between."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.over_time import RATES
from budgetfrontier.rules.rates import FIGURES
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import rates
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.top_reading import JobReading
from budgetfrontier.tools.console.top_view import last_hour
from tests.support import make_settings, on_disk, pages
from tests.tools.console.conftest import get

OUTCOMES = (Outcome.SUCCESS, Outcome.DEAD, Outcome.FAILURE, Outcome.RETRY, Outcome.DISREGARDED)

pytestmark = pytest.mark.usefixtures("stopped_time")


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """Forty minutes until now: two URIs are found each minute, some twice, and one ends, each time in another way."""
    folder = tmp_path / "busy"
    clock = ManualClock(time.time() - 2430)
    with Frontier.open(folder / "frontier", make_settings(), clock=clock) as f:
        for minute in range(40):
            f.schedule_many(pages("A", 3, first=2 * minute))
            for lease in f.lease(1):
                f.finish(lease, OUTCOMES[minute % 5], reason="x", delay=0.0, size=1000 * minute)
            f.commit()
            clock.advance(60)
        f.schedule_many(pages("A", 5, first=1000))  # after the last row of a minute
        clock.advance(20)
    return folder


def test_a_figure_is_the_same_on_every_page_in_top_and_in_the_report(
    busy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    assert main(["report", str(busy), "--kind", "rates", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["rows"]
    report = {row["figure"]: row for row in told}
    assert report["discovered"]["count"] == 86 and report["fetched"]["count"] == 32
    assert (report["failed"]["count"], report["buried"]["count"]) == (8, 8)
    job = ConsoleJob("", busy, busy / "frontier")
    try:
        page = {row[0]: row for row in rates.build(job, Query({"span": "1h"}))["rates"]}
        overview = {curve.name: curve for curve in job.over_time.curves().figures}
        top, _ = last_hour(JobReading(job).read().series, now)
    finally:
        job.close()
    for name in FIGURES:
        row = report[name]
        assert page[name][1:7] == tuple(row[column] for column in RATES[1:]), name
        assert round(top[name] * 3600, 1) == row["per_hour"], name
        if name in overview:
            hour = overview[name].rate
            assert hour is not None and hour.per_hour is not None
            assert round(hour.per_hour, 1) == row["per_hour"], name


def test_runs_between_which_the_clock_was_set_back_count_once(tmp_path: Path) -> None:
    for run in range(2):
        clock = ManualClock(time.time() - 1000 + 20 * run)
        with on_disk(tmp_path / "job", clock) as frontier:
            for minute in range(5):
                frontier.schedule_many(f"http://a.test/{run}-{minute}-{n}" for n in range(10))
                frontier.commit()
                clock.advance(60.0)
                frontier.commit()
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


def test_a_frontier_without_a_past_says_so(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "frontier", make_settings()).close()
    status, text = get(tmp_path, "/rates")
    assert status == 200 and "Nothing is known of that time" in text
