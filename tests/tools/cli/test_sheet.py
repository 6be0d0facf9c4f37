"""The command `sheet`: associations and values of sheets, changed, listed and undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, QueueState, Settings
from budgetfrontier.reports.operators import matches_nothing, no_match
from tests.tools.cli.conftest import Cli


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A stopped crawl with three hosts, one of them labelled, and a sheet for one."""
    settings = Settings.from_dict({"profile": "sheets", "associations": [{"sheet": "smallBudget", "domain": "a.test"}]})
    with Frontier.open(tmp_path / "frontier", settings) as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        frontier.schedule(CrawlUri("http://c.test/", source="blogs"))
    return tmp_path


def rows(job: Path, cli: Cli) -> list[list[str]]:
    answer = cli("sheet", job, "list", "--format", "csv")
    assert answer.code == 0
    return [line.split(",")[:4] for line in answer.out.splitlines()[1:]]


def budget(job: Path, key: str) -> tuple[int, int]:
    with Frontier.open(job / "frontier") as frontier:
        queue = frontier.queue(key)
        assert queue is not None
        return queue.total_budget, queue.precedence


def test_sheets_are_listed_with_the_queues_that_they_apply_to(job: Path, cli: Cli) -> None:
    assert rows(job, cli)[0] == ["smallBudget", "domain:a.test", "0", "1"]
    assert [row[0] for row in rows(job, cli)[1:]] == ["forceRetire", "highPrecedence", "veryPolite"]


def test_an_association_is_added_removed_and_undone(job: Path, cli: Cli) -> None:
    options = ("--match", "label:blogs", "--order", 2)
    plan = cli("sheet", job, "add", "highPrecedence", *options, "--dry-run")
    assert plan.out.splitlines()[:2] == ["label:blogs: precedence 3 -> 2", "matches 1 queue"]
    assert budget(job, "c.test") == (-1, 3)
    assert cli("sheet", job, "add", "highPrecedence", *options, "--reason", "partners").code == 0
    assert budget(job, "c.test") == (-1, 2)
    assert rows(job, cli)[1] == ["highPrecedence", "label:blogs", "2", "1"]
    assert cli("undo", job, 1).code == 0
    assert budget(job, "c.test") == (-1, 3)
    assert cli("sheet", job, "remove", "smallBudget", "--match", "domain:a.test").code == 0
    assert budget(job, "a.test") == (-1, 3)
    assert cli("undo", job, 3).code == 0
    assert budget(job, "a.test") == (100, 3)


@pytest.mark.parametrize("command", [("sheet", "add", "smallBudget"), ("adjust", "--total-budget", "5")])
def test_a_pattern_that_matches_nothing_is_told(job: Path, cli: Cli, command: tuple[str, ...]) -> None:
    name, *rest = command
    told = cli(name, job, *rest, "--match", "regex:p3$")
    assert told.code == 0 and matches_nothing("regex:p3$") in told.err


@pytest.mark.parametrize("command", [("sheet", "set", "new"), ("adjust", "--match", "sheet:smallBudget")])
def test_a_sheet_that_concerns_no_queue_is_told_once(tmp_path: Path, cli: Cli, command: tuple[str, ...]) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"profile": "sheets"})) as frontier:
        frontier.schedule("http://a.test/")
    name, *rest = command
    told = cli(name, tmp_path, *rest, "--set", "queue_total_budget=5")
    assert told.code == 0 and (told.out + told.err).count(no_match("sheet:new")) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_values_of_a_sheet_are_known_without_a_queue(job: Path, cli: Cli, dry_run: bool) -> None:
    options = ("--dry-run",) if dry_run else ()
    first = cli("sheet", job, "add", "smallBudget", "--match", "regex:p3$", *options).out.splitlines()[0]
    assert first == ("regex:p3$: balance_replenish_amount -> 20, queue_total_budget -> 100, retire_when -> reached")


def test_a_value_of_a_sheet_that_an_adjustment_may_replace_is_not_known(job: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--match", "host:z.test", "--set", "queue_total_budget=7").code == 0
    first = cli("sheet", job, "add", "smallBudget", "--match", "regex:p3$", "--dry-run").out.splitlines()[0]
    assert "queue_total_budget -> ?, retire_when -> reached" in first


def test_a_shortest_delay_beyond_the_longest_in_force_has_a_warning(job: Path, cli: Cli) -> None:
    told = "warning: domain:a.test: min_delay (1m30s) is longer than max_delay (30s), which wins: set both"
    delay = ("--set", "politeness.min_delay=90s")
    assert told in cli("sheet", job, "set", "smallBudget", *delay, "--dry-run").err.splitlines()
    assert told in cli("sheet", job, "set", "smallBudget", *delay).err.splitlines()
    assert told in cli("adjust", job, "--match", "domain:a.test", *delay).err.splitlines()
    assert told not in cli("adjust", job, "--match", "domain:a.test", "--set", "precedence=2").err.splitlines()


def test_values_of_a_sheet_are_set_and_stay_on_top_of_other_settings(job: Path, cli: Cli) -> None:
    answer = cli("sheet", job, "set", "smallBudget", "--set", "queue_total_budget=7")
    assert answer.out.startswith("sheet:smallBudget: queue_total_budget 100 -> 7\nmatches 1 queue\n")
    other = Settings.from_dict(
        {"sheets": {"smallBudget": {"queue_total_budget": 9}}, "associations": [{"sheet": "smallBudget", "match": "*"}]}
    )
    with Frontier.open(job / "frontier", other):
        pass
    assert budget(job, "b.test") == (7, 3)
    assert cli("sheet", job, "set", "new", "--set", "precedence=1").code == 0
    assert cli("sheet", job, "add", "new", "--match", "host:b.test").code == 0
    assert budget(job, "b.test") == (7, 1)


def test_a_new_sheet_says_that_it_is_associated_with_nothing(job: Path, cli: Cli) -> None:
    told = [
        "sheet:new: precedence 9, politeness.min_delay 1s",
        "concerns no URI that is next in its queue; `budgetfrontier sheet JOB add` associates it with URIs",
    ]
    values = ("--set", "precedence=9", "--set", "politeness.min_delay=1s")
    assert cli("sheet", job, "set", "new", *values, "--dry-run").out.splitlines()[:2] == told
    assert cli("sheet", job, "set", "new", *values).out.splitlines() == [*told, "0 retired queues are reconsidered"]


def test_force_retire_retires_a_queue_at_its_turn(job: Path, cli: Cli) -> None:
    assert cli("sheet", job, "add", "forceRetire", "--match", "host:b.test").code == 0
    with Frontier.open(job / "frontier") as frontier:
        assert sorted(lease.queue for lease in frontier.lease(9)) == ["a.test", "c.test"]
        queue = frontier.queue("b.test")
        assert queue is not None and queue.state is QueueState.RETIRED and queue.queued == 1


def test_explain_and_audit_name_the_sheet(job: Path, cli: Cli) -> None:
    told = cli("explain", job, "a.test").out
    assert "  queue_total_budget 100  from sheet smallBudget (domain:a.test), over the default: no limit" in told
    cli("sheet", job, "add", "veryPolite", "--match", "host:b.test")
    cli("sheet", job, "remove", "veryPolite", "--match", "host:b.test")
    told = cli("audit", job).out
    assert "Associated host:b.test with sheet veryPolite; 1 queue matched" in told
    assert "Ended the association of host:b.test with sheet veryPolite" in told
    found = json.loads(cli("audit", job, "--format", "json").out)
    assert [entry["args"]["set"] for entry in found] == [{"sheet": "veryPolite"}, {"without_sheet": "veryPolite"}]


@pytest.mark.parametrize(
    "words",
    [
        ("add", "smallBudget"),
        ("add", "--match", "*"),
        ("add", "none", "--match", "*"),
        ("remove", "smallBudget", "--match", "*"),
        ("remove", "smallBudget", "--match", "domain:a.test", "--order", 1),
        ("set", "smallBudget"),
        ("set", "smallBudget", "--match", "*", "--set", "precedence=1"),
        ("set", "smallBudget", "--set", "fetch.timeout=1"),
        ("set", "small budget", "--set", "precedence=1"),
        ("set", "smallBudget", "--set", "precedence=1", "--set", "queue_precedence=2"),
        ("add", "smallBudget", "--match", "nothing"),
        ("add", "smallBudget", "--match", "sheet:smallBudget"),
        ("remove", "smallBudget", "--match", "sheet:smallBudget", "--dry-run"),
        ("list", "smallBudget"),
        ("list", "--match", "*"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(job: Path, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("sheet", job, *words).code != 0
    assert rows(job, cli)[0] == ["smallBudget", "domain:a.test", "0", "1"]
    with Frontier.open(job / "frontier") as frontier:
        assert frontier.adjustments == []


def test_a_setting_that_is_given_twice_is_refused(job: Path, cli: Cli) -> None:
    twice = cli("sheet", job, "set", "small", "--set", "queue_total_budget=1", "--set", "queue_total_budget=2")
    assert twice.code == 2 and "queue_total_budget is set twice: give each setting once" in twice.err
