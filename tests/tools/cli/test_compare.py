"""`compare`: two jobs, and two runs of one."""

from __future__ import annotations

import csv
import json
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.tools.cli import adjustments
from tests.tools.cli.conftest import Cli

SETTINGS = {"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}, "backoff": {"delay": 0}}}
HOUR = 3600.0


def fetch(path: Path, began: float, counts: dict[str, int], *, errors: str = "") -> None:
    """A run that fetches so many pages of each host, one a minute."""
    clock = ManualClock(began)
    with Frontier.open(path / "frontier", Settings.from_dict(SETTINGS), clock=clock) as frontier:
        frontier.schedule_many(f"http://{host}/{began}/{n}" for host, number in counts.items() for n in range(number))
        for _ in range(sum(counts.values())):
            [lease] = frontier.lease()
            bad = lease.queue == errors
            outcome = Outcome.FAILURE if bad else Outcome.SUCCESS
            frontier.finish(lease, outcome, status=500 if bad else 200, size=100)
            clock.advance(60)
            frontier.commit()


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[Path, Path]:
    """Two jobs; the first has had two runs, a day apart. Each begins in one hour and ends in the next."""
    began = (time.time() - 48 * HOUR) // HOUR * HOUR - 150
    fetch(tmp_path / "one", began, {"same.test": 3, "more.test": 2, "left.test": 4})
    fetch(tmp_path / "one", began + 24 * HOUR, {"same.test": 1, "late.test": 5})
    fetch(tmp_path / "two", began, {"same.test": 4, "more.test": 20, "new.test": 1}, errors="more.test")
    return tmp_path / "one", tmp_path / "two"


def test_two_jobs_are_compared_host_by_host(jobs: tuple[Path, Path], cli: Cli) -> None:
    said = cli("compare", *jobs, "--format", "csv")
    rows = {row["queue"]: row for row in csv.DictReader(StringIO(said.out))}
    assert (said.code, next(iter(rows)), len(rows)) == (0, "more.test", 5)
    assert list(rows["more.test"].values()) == ["more.test", "2", "20", "2", "20", "0", "20", "200", "2000"]
    assert (rows["left.test"]["fetched"], rows["left.test"]["fetched_2"]) == ("4", "0")
    assert (rows["new.test"]["fetched"], rows["new.test"]["fetched_2"]) == ("0", "1")
    by_errors = cli("compare", *jobs, "--by", "errors", "--limit", "1", "--format", "csv").out
    assert by_errors.splitlines()[1].startswith("more.test,")


@pytest.mark.parametrize("measure", ["fetched", "spent", "errors", "bytes"])
def test_the_first_rows_are_those_of_all_rows(measure: str, jobs: tuple[Path, Path], cli: Cli) -> None:
    def compared(limit: int) -> dict[str, Any]:
        said = cli("compare", *jobs, "--by", measure, "--limit", str(limit), "--format", "json")
        found: dict[str, Any] = json.loads(said.out)
        return found

    every = compared(0)
    assert len(every["rows"]) == 5
    for limit in (1, 3, 9):
        few = compared(limit)
        assert few["rows"] == every["rows"][:limit] and few["queues"] == every["queues"]


def test_many_queues_are_announced(jobs: tuple[Path, Path], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for many, told in ((8, ""), (7, "comparing 7 queues with each other ...\n")):
        monkeypatch.setattr(adjustments, "MANY", many)
        assert cli("compare", *jobs, "--format", "json").err == told


def test_text_and_json_have_the_totals(jobs: tuple[Path, Path], cli: Cli) -> None:
    told = cli("compare", *jobs).out.splitlines()
    assert told[0].startswith(f"{jobs[0]}: fetched 15, spent 15, failed 0, bytes 1.5 KiB, answers 4xx 0, answers 5xx 0")
    assert told[1].startswith(
        f"{jobs[1]}: fetched 25, spent 25, failed 20, bytes 2.4 KiB, answers 4xx 0, answers 5xx 20"
    )
    assert told[2] == "queues fetched from: 2 only in the first, 1 only in the second, 2 in both"
    found = json.loads(cli("compare", *jobs, "--format", "json").out)
    assert found["totals"][1]["answers_5xx"]["count"] == 20
    assert found["rows"][0]["second"]["fetched"] == 20


def test_a_rate_of_some_seconds_is_not_told(jobs: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - HOUR)
    with Frontier.open(tmp_path / "short" / "frontier", Settings.from_dict(SETTINGS), clock=clock) as frontier:
        frontier.schedule_many(f"http://a.test/{n}" for n in range(5))
        frontier.commit()
        for lease in frontier.lease(5):
            frontier.finish(lease, size=100)
        clock.advance(8)
    told = cli("compare", jobs[0], tmp_path / "short").out.splitlines()
    assert told[0].endswith(" fetched an hour")
    assert "; its totals tell of 8s, too short for a rate an hour" in told[1] and "an hour," not in told[1]


def test_a_run_before_the_clock_was_set_back_is_known(tmp_path: Path, cli: Cli) -> None:
    fetch(tmp_path, time.time() + 2 * HOUR, {"one.test": 3})
    fetch(tmp_path, time.time() - HOUR, {"two.test": 4})
    said = cli("compare", tmp_path, "--runs", "1", "2").out
    assert "run 1: fetched 3, " in said and "run 2: fetched 4, " in said, said


def test_two_runs_of_a_job_are_compared(jobs: tuple[Path, Path], cli: Cli) -> None:
    said = cli("compare", jobs[0], "--runs", "1", "2")
    assert said.out.splitlines()[2] == "queues fetched from: 2 only in the first, 1 only in the second, 1 in both"
    assert said.out.splitlines()[0].startswith("run 1: fetched 9, spent 9,")
    assert "known by the hour" in said.err
    assert (
        "\nHosts are not compared: this is one run, and not two.\n" in cli("compare", jobs[0], "--runs", "2", "2").out
    )
    same = cli("compare", jobs[0], "--runs", "2", "2", "--format", "csv")
    assert "this is one run, and not two" in same.err and len(same.out.splitlines()) == 1
    found = json.loads(cli("compare", jobs[0], "--runs", "2", "2", "--format", "json").out)
    assert (found["rows"], found["queues"], found["totals"][0]["fetched"]["count"]) == ([], {}, 6)
    assert "there is no run 9: they are 1 to 2\n" in cli("compare", jobs[0], "--runs", "1", "9").err
    assert "--by errors is not known by run" in cli("compare", jobs[0], "--runs", "1", "2", "--by", "errors").err


def test_a_run_of_an_hour_with_many_is_an_estimate_that_says_so(tmp_path: Path, cli: Cli) -> None:
    """Those with the longest stops around them are exact."""
    began = (time.time() - 48 * HOUR) // HOUR * HOUR + 60
    for number in range(30):
        fetch(tmp_path, began, {f"{number}.test": 1})
        began += 65 if number < 8 else 80
    fetch(tmp_path, time.time() - 600, {"a.test": 1})
    said = cli("compare", tmp_path, "--runs", "3", "31")
    assert said.out.startswith("run 3: fetched 1,") and "run 31: fetched 1," in said.out
    assert "run 3: its counts are estimates: where it begins or ends, totals are known" in said.err
    assert "run 31:" not in said.err and cli("compare", tmp_path, "--runs", "20", "31").err.count("estimates") == 0
    found = json.loads(cli("compare", tmp_path, "--runs", "31", "3", "--format", "json").out)
    assert len(found["unsure"]) == 1 and found["unsure"][0].startswith("run 3: its counts are estimates")
