"""`statuses`: what hosts have answered, by class and by kind."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from budgetfrontier import Finish, Frontier, Outcome, Settings
from tests.tools.cli.conftest import Cli

ENDS = {
    "good.test": [(Outcome.SUCCESS, 200, "")] * 9 + [(Outcome.SUCCESS, 404, "")],
    "bad.test": [(Outcome.FAILURE, 500, "")] * 3 + [(Outcome.FAILURE, 503, "")],
    "down.test": [(Outcome.FAILURE, 0, f"no answer from 192.0.2.{n} after {n} s") for n in range(1, 3)],
    "silent.test": [(Outcome.SUCCESS, 0, "")],
}


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """A job whose hosts have answered in different ways."""
    settings = Settings.from_dict(
        {"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}, "backoff": {"delay": 0}}}
    )
    with Frontier.open(tmp_path / "job" / "frontier", settings) as frontier:
        for host, ends in ENDS.items():
            frontier.schedule_many(f"http://{host}/{number}" for number in range(len(ends)))
            for outcome, status, reason in ends:
                [lease] = frontier.lease()
                frontier.finish_many([Finish(lease, outcome, status=status, reason=reason, size=1)])
    return tmp_path / "job"


def rows(cli: Cli, *arguments: object) -> list[dict[str, str]]:
    said = cli("statuses", *arguments, "--format", "csv")
    assert said.code == 0
    return list(csv.DictReader(StringIO(said.out)))


def test_hosts_with_most_errors_come_first(answered: Path, cli: Cli) -> None:
    assert [row["queue"] for row in rows(cli, answered)] == ["bad.test", "down.test", "good.test"]
    assert [row["queue"] for row in rows(cli, answered, "--limit", "1")] == ["bad.test"]
    (bad,) = rows(cli, answered, "--match", "host:bad.test")
    assert (bad["2xx"], bad["5xx"], bad["none"], bad["error_share"]) == ("0", "4", "0", "1.0")
    assert bad["kinds"] == "status 500 (3), status 503 (1)"


@pytest.mark.parametrize(
    ("status", "queues"),
    [
        ("5xx", ["bad.test"]),
        ("none", ["down.test"]),
        ("2XX", ["good.test"]),
        ("404", ["good.test"]),
        ("503", ["bad.test"]),
        ("no answer from ADDRESS after N s", ["down.test"]),
        ("418", []),
    ],
)
def test_a_class_a_status_or_a_kind_may_be_asked_for(answered: Path, cli: Cli, status: str, queues: list[str]) -> None:
    assert [row["queue"] for row in rows(cli, answered, "--status", status)] == queues


def test_kinds_have_their_numbers_and_their_worst_queue(answered: Path, cli: Cli) -> None:
    assert [tuple(row.values()) for row in rows(cli, answered, "--by", "kind")] == [
        ("status 500", "3", "1", "bad.test", "3"),
        ("no answer from ADDRESS after N s", "2", "1", "down.test", "2"),
        ("status 404", "1", "1", "good.test", "1"),
        ("status 503", "1", "1", "bad.test", "1"),
    ]


def test_text_and_json_have_the_totals(answered: Path, cli: Cli) -> None:
    told = cli("statuses", answered).out.splitlines()
    assert (
        told[0] == "16 attempts of 3 queues: 9 2xx (56.2%), 1 4xx (6.2%), 4 5xx (25.0%), 2 without an answer (12.5%)."
    )
    assert told[2].split()[:8] == ["bad.test", "0", "0", "0", "4", "0", "100%", "-"]
    found = json.loads(cli("statuses", answered, "--format", "json").out)
    assert found["totals"] == {"2xx": 9, "3xx": 0, "4xx": 1, "5xx": 4, "none": 2}
    assert [row["queue"] for row in found["rows"]] == ["bad.test", "down.test", "good.test"]


def test_wrong_statuses_are_refused_and_none_is_no_error(answered: Path, cli: Cli, tmp_path: Path) -> None:
    refused = cli("statuses", answered, "--status", "200")
    assert refused.code == 2 and "nor a status from 400 on" in refused.err
    assert "no attempt ended so" in cli("statuses", answered, "--status", "418").err
    with Frontier.open(tmp_path / "new" / "frontier", Settings.from_dict({"crawl": "new"})):
        pass
    assert "No attempt has ended with a status so far" in cli("statuses", tmp_path / "new").out
