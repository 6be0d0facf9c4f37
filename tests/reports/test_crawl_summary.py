"""The crawl report: what it says of the runs."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.core.model import CrawlState, Run, RunEnd, Summary
from budgetfrontier.reports.crawl_summary import crawl_summary
from budgetfrontier.rules.run_history import CRAWL
from tests.support import memory


def run(number: int, began: float, ended: float | None, program: str = CRAWL, leased: int | None = 9) -> Run:
    end = RunEnd.EXIT if ended is not None else None
    return Run(
        number=number, program=program, pid=1, host="h", began=began, ended=ended, end=end, reason="", leased=leased,
        kernel="",
    )  # fmt: skip


def summed_up(*runs: Run, since: float | None = None) -> dict[str, Any]:
    with memory() as frontier:
        totals: Summary = frontier.summary()
    told: dict[str, int | None] = {"bytes": 7200, "robots_denials": 0}
    found = crawl_summary("c", totals, list(runs), None, told=told, alive=False, now=10_000.0, since=since)
    assert found["status"] == CrawlState.NEW
    return found


def test_the_time_of_a_crawl_is_that_of_its_runs() -> None:
    found = summed_up(run(1, 1000, 2000), run(2, 3000, 3600), run(3, 9800, None))
    assert (found["runs"], found["began"], found["ended"], found["duration"]) == (3, 1000, None, 1800)
    assert found["bytes_per_second"] == 4.0
    assert summed_up()["runs"] == 0 and summed_up()["began"] is None


@pytest.mark.parametrize(("leased", "seconds"), [(None, 1000), (0, 1000), (3, 1600)])
def test_the_time_of_a_command_that_was_killed_is_none_of_crawling(leased: int | None, seconds: float) -> None:
    found = summed_up(run(1, 1000, 2000), run(2, 3000, 3600, "budgetfrontier import", leased))
    assert (found["runs"], found["duration"]) == (2, seconds)


def test_of_runs_of_which_the_first_are_not_kept_the_number_is_known_and_not_the_time() -> None:
    runs = run(41, 1000, 2000), run(42, 3000, 3600)
    found = summed_up(*runs)
    assert (found["runs"], found["began"], found["duration"], found["bytes_per_second"]) == (42, None, None, None)
    assert summed_up(*runs, since=2800)["bytes_per_second"] == 12.0, "all runs since then are known"
