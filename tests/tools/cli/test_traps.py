"""`traps`: what it lists, and how a queue is held."""

from __future__ import annotations

import csv
import json
import re
import shlex
from io import StringIO
from pathlib import Path

import pytest

from budgetfrontier import Frontier, QueueState, Settings
from tests.tools.cli.conftest import Cli


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A job with a calendar, and with an honest host."""
    settings = Settings.from_dict({"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}}})
    with Frontier.open(tmp_path / "job" / "frontier", settings) as frontier:
        frontier.schedule_many(f"https://cal.test/events/{year}/04" for year in range(2100, 2140))
        frontier.schedule_many(f"https://good.test/item/{number}" for number in range(40))
        for _ in range(4):
            frontier.finish(frontier.lease(1)[0])
    return tmp_path / "job"


def test_text_has_the_evidence_and_the_commands(trapped: Path, cli: Cli) -> None:
    said = cli("traps", trapped)
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert re.fullmatch(r"cal\.test: 0\.9\d, \w+, 3\d queued, \d finished, \d spent", lines[0])
    assert re.fullmatch(
        r"  future-dates: (\d+) of \1 URLs are of 20\d\d or later, such as https://cal\.test/\S+", lines[1]
    )
    assert lines[2] == "  paths: /events/N/N 100%"
    command = lines[3].removeprefix("  hold it: budgetfrontier ")
    assert cli(*shlex.split(command)).out.startswith("queue:cal.test: queue_total_budget no limit -> ")
    assert lines[4].startswith(r"  or in scope.reject: 'regex:^https?://cal\.test(?=/events(?![^/?]))(?:/")
    assert len(lines) == 5


def test_json_and_csv(trapped: Path, cli: Cli) -> None:
    (row,) = json.loads(cli("traps", trapped, "--format", "json").out)
    assert row["queue"] == "cal.test" and row["evidence"][0]["code"] == "future-dates"
    assert row["rule"] == "regex:" + row["evidence"][0]["pattern"]
    (line,) = csv.DictReader(StringIO(cli("traps", trapped, "--format", "csv").out))
    assert line["rule"] == row["rule"] and json.loads(line["evidence"]) == row["evidence"]


def test_a_queue_is_held_and_the_audit_has_the_evidence(trapped: Path, cli: Cli) -> None:
    dry = cli("traps", trapped, "--apply", "cal.test", "--dry-run")
    assert dry.code == 0 and "dry run: nothing was changed" in dry.err
    assert json.loads(cli("audit", trapped, "--format", "json").out) == []
    assert cli("traps", trapped, "--apply", "cal.test", "--who", "anna").code == 0
    (entry,) = json.loads(cli("audit", trapped, "--format", "json").out)
    assert (entry["command"], entry["who"]) == ("adjust", "anna")
    assert entry["reason"].startswith("trap: ") and entry["args"]["match"] == "queue:cal.test"
    with Frontier.open(trapped / "frontier") as frontier:
        while leases := frontier.lease(1):
            frontier.finish(leases[0])
        record = frontier.queue("cal.test")
        assert record is not None and record.state is QueueState.RETIRED
    assert "  held: it is RETIRED, and hands out none of its URIs" in cli("traps", trapped).out
    again = cli("traps", trapped, "--apply", "cal.test")
    assert again.code != 0 and "cal.test is held already: it is RETIRED" in again.err


def test_a_queue_over_its_budget_is_held_without_a_command(trapped: Path, cli: Cli) -> None:
    with Frontier.open(trapped / "frontier") as frontier:
        record = frontier.queue("cal.test")
        assert record is not None
        frontier.adjust(match="queue:cal.test", queue_total_budget=record.expenditure - 1)
        assert record.state is not QueueState.RETIRED
    assert "  held: it is over its budget, and retires at its next turn" in cli("traps", trapped).out.splitlines()
    (row,) = json.loads(cli("traps", trapped, "--format", "json").out)
    assert (row["total_budget"], row["command"]) == (None, "")
    refused = cli("traps", trapped, "--apply", "cal.test", "--dry-run")
    assert refused.code != 0 and "is held already: it is over its budget" in refused.err


def test_what_is_no_trap_is_not_held(trapped: Path, cli: Cli) -> None:
    refused = cli("traps", trapped, "--apply", "good.test")
    assert refused.code != 0 and "good.test does not look like a trap" in refused.err
    assert cli("traps", trapped, "--apply", "unknown.test").code != 0
    assert cli("traps", trapped, "--dry-run").code == 2
    none = cli("traps", trapped, "--match", "good.test")
    assert (none.code, none.out) == (
        0,
        "",
    ) and "no queue whose URIs were read looks like a trap among those that match good.test" in none.err
