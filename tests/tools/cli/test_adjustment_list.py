"""`adjust --file`: all adjustments of a file are applied, or none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.reports.operators import Applied, OperatorCommand
from budgetfrontier.tools.job_operator import JobOperator
from tests.support import adjusted
from tests.tools.cli.conftest import Cli

GOOD = """\
- match: domain:one.test
  set: {queue_total_budget: 50, politeness: {min_delay: 3s}}
  reason: a trap
- match: sheet:small
  set: {queue_total_budget: 5}
- match: queue:two.test
  set: {sheet: small}
"""
OF_GOOD: list[tuple[str, dict[str, Any]]] = [
    ("domain:one.test", {"queue_total_budget": 50, "politeness.min_delay": 3.0}),
    ("sheet:small", {"queue_total_budget": 5}),
    ("queue:two.test", {"sheet": "small"}),
]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    with Frontier.open(tmp_path / "job" / "frontier", Settings()) as frontier:
        frontier.schedule_many(["http://one.test/", "http://two.test/"])
    return tmp_path / "job"


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "more.adjust.yaml"
    path.write_text(GOOD)
    return path


def test_all_are_applied_in_order(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--file", listed, "--reason", "by file")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "adjustment 1: domain:one.test: queue_total_budget 50, politeness.min_delay 3s, matches 1 queue",
        "adjustment 2: sheet:small: queue_total_budget 5, matches 0 queues",
        "adjustment 3: queue:two.test: sheet small, matches 1 queue",
        "3 adjustments applied",
    ]
    assert adjusted(job) == OF_GOOD
    with Reader(job / "frontier") as reader:
        assert [entry.reason for entry in reader.audit()] == ["a trap", "by file", "by file"]
        assert {queue.queue: queue.total_budget for queue in reader.queues()} == {"one.test": 50, "two.test": 5}


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The matches of the adjustments that were given at once, in order."""
    given: list[list[str]] = []
    plain = JobOperator.apply_all

    def apply_all(operator: JobOperator, commands: Sequence[OperatorCommand]) -> list[Applied]:
        given.append([one.args["match"] for one in commands])
        return plain(operator, commands)

    monkeypatch.setattr(JobOperator, "apply_all", apply_all)
    return given


def test_those_on_different_uris_are_given_at_once(
    running: Path, listed: Path, cli: Cli, together: list[list[str]]
) -> None:
    listed.write_text("".join(f"- {{match: 'domain:h{n}.test', set: {{precedence: 4}}}}\n" for n in range(60)))
    answer = cli("adjust", running, "--file", listed)
    assert answer.code == 0 and "60 adjustments applied" in answer.out
    assert [len(some) for some in together] == [25, 25, 10]
    assert [match for match, _ in adjusted(running)] == [f"domain:h{n}.test" for n in range(60)]


def test_one_that_may_change_what_another_finds_is_given_after_it(
    job: Path, listed: Path, cli: Cli, together: list[list[str]]
) -> None:
    matches = ("domain:a.test", "domain:b.test", "host:www.a.test", "queue:c.test", "regex:x")
    added = "".join(f"- {{match: '{match}', set: {{precedence: 4}}}}\n" for match in matches)
    listed.write_text(GOOD + added)
    assert cli("adjust", job, "--file", listed).code == 0
    assert together == [
        ["domain:one.test"],
        ["sheet:small"],
        ["queue:two.test"],
        ["domain:a.test", "domain:b.test"],
        ["host:www.a.test"],
        ["queue:c.test"],
        ["regex:x"],
    ]


def test_what_is_given_at_once_has_the_figures_of_each(tmp_path: Path, listed: Path, cli: Cli) -> None:
    job = tmp_path / "large"
    with Frontier.open(job / "frontier", Settings()) as frontier:
        frontier.schedule_many(f"http://h{n}.test/{page}" for n in range(1001) for page in range(2))
        frontier.finish(frontier.lease(1)[0], retire_queue=True)  # any change of settings brings its queue back
    listed.write_text(
        "".join(f"- {{match: 'domain:h{n}.test', set: {{precedence: {n}}}}}\n" for n in range(7, 10)),
    )
    assert cli("adjust", job, "--file", listed).code == 0
    with Reader(job / "frontier") as reader:
        effects = [entry.effect for entry in reader.audit()]
    assert [effect["groups"] for effect in effects] == [
        [{"before": {"precedence": 3}, "after": {"precedence": n}, "queues": 1}] for n in range(7, 10)
    ]
    assert [effect["promised"]["revived_count"] for effect in effects] == [1, 1, 1], "as the dry run of each"


def test_a_gzip_on_a_running_crawl(running: Path, tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "more.adjust.yaml.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    answer = cli("adjust", running, "--file", path, "--format", "json")
    assert answer.code == 0
    told = json.loads(answer.out)
    assert [(one["match"], one["set"]) for one in told["adjustments"]] == OF_GOOD
    assert [one["id"] for one in told["adjustments"]] == [1 + told["adjustments"][0]["id"] + n for n in (-1, 0, 1)]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("- {match: 'hst:x', set: {precedence: 4}}", '8:11: [3].match: "hst:x" is not a match'),
        ("- {match: 'host:x', set: {precedenc: 4}}", '8:27: [3].set: unknown setting "precedenc"'),
        ("- {match: 'host:x', set: {politeness: {min_delay: x}}}", "8:51: [3].set.politeness.min_delay: expected"),
        ("- {match: 'host:x', set: {}}", "8:26: [3].set: it changes nothing"),
        ("- {match: 'host:x', set: 5}", "8:26: [3].set: expected a mapping of settings, got 5"),
        ("- {match: 'host:x', set: {precedence: 4}, why: x}", "8:3: [3]: expected {match: ..., set: {...}}, perhaps"),
        ("- {match: 'host:x', set: {precedence: 4}, reason: 5}", "8:51: [3].reason: expected text, got 5"),
        ("- {match: 7, set: {precedence: 4}}", "8:11: [3].match: "),
        ("- 5", "8:3: [3]: expected {match: ..., set: {...}}, perhaps with a reason, got 5"),
        ("- {match: 'sheet:small', set: {sheet: small}}", '8:3: [3]: "sheet:small": a sheet is associated with URIs'),
        ("- {match: 'host:x', set: {sheet: smal}}", '8: there is no sheet "smal"; did you mean small'),
        ("- {match: 'group:shops', set: {group.max_in_flight: 1}}", '8: no group is defined as "shops"'),
    ],
)
def test_nothing_is_applied_if_one_is_wrong(job: Path, listed: Path, cli: Cli, wrong: str, problem: str) -> None:
    listed.write_text(f"{GOOD}{wrong}\n")
    answer = cli("adjust", job, "--file", listed)
    assert (answer.code, answer.out) == (4, "")
    assert f"{listed}:{problem}" in answer.err
    assert adjusted(job) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", ":1:1: the file is empty"),
        (
            b"[]",
            ":1:1: expected a list of adjustments, each {match: ..., set: {...}}, perhaps with a reason"
            ", got an empty one",
        ),
        (b"queue_total_budget: 5", ":1:1: expected a list of adjustments"),
        (b"- {match: x", ":1:3: this is not YAML"),
        (gzip.compress(GOOD.encode())[:-20], ": this gzip is damaged"),
    ],
)
def test_a_file_that_is_no_list(job: Path, listed: Path, cli: Cli, content: bytes, problem: str) -> None:
    listed.write_bytes(content)
    answer = cli("adjust", job, "--file", listed)
    assert answer.code == 4 and f"{listed}{problem}" in answer.err
    assert adjusted(job) == []


def test_those_before_one_that_is_refused_are_undone(job: Path, listed: Path, tmp_path: Path, cli: Cli) -> None:
    values = tmp_path / "values.txt"
    values.write_text("http://one.test/ 5\n")
    policy = f"{{preloaded: {{file: {values}}}}}"
    listed.write_text(f"{GOOD}- {{match: 'host:x', set: {{uri_precedence_policy: {policy}}}}}\n")
    answer = cli("adjust", job, "--file", listed)
    assert answer.code == 1
    assert answer.err.splitlines()[:2] == [
        "3 adjustments are undone",
        f"{listed}:8: this adjustment was refused, so none of the file is in force",
    ]
    assert f"{values} was not read" in answer.err
    assert adjusted(job) == []


def test_a_dry_run_changes_nothing(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--file", listed, "--dry-run")
    assert answer.code == 0
    assert f"{listed}:1:" in answer.out and "matches 1 queue" in answer.out
    assert f'{listed}:6: its effect is known once those before it are in force: there is no sheet "small"' in answer.err
    assert answer.err.count("nothing was changed") == 1 and answer.err.endswith("dry run: nothing was changed\n")
    told = json.loads(cli("adjust", job, "--file", listed, "--dry-run", "--format", "json").out)
    assert told["dry_run"] and [one["match"] for one in told["adjustments"]] == ["domain:one.test", "sheet:small"]
    assert adjusted(job) == []


def test_the_audit_has_what_the_dry_run_of_the_file_has_promised(tmp_path: Path, listed: Path, cli: Cli) -> None:
    """Also of those that come after others which have revived their queues."""
    job = tmp_path / "retired"
    with Frontier.open(job / "frontier", Settings.from_dict({"frontier": {"queue_total_budget": 0}})) as frontier:
        frontier.schedule_many(f"http://h{n}.test/{page}" for n in range(30) for page in range(2))
        while frontier.lease(30):  # all are over their budgets, and retire at their turns
            pass
    listed.write_text("".join(f"- {{match: 'queue:h{n}.test', set: {{queue_total_budget: 9}}}}\n" for n in range(30)))
    told = json.loads(cli("adjust", job, "--file", listed, "--dry-run", "--format", "json").out)["adjustments"]
    assert cli("adjust", job, "--file", listed).code == 0
    with Reader(job / "frontier") as reader:
        promised = [entry.effect["promised"] for entry in reader.audit()]
    names = ("matched", "revived_count", "retired_count", "still_over", "uris", "spend", "others")
    assert [[one[name] for name in names] for one in promised] == [[one[name] for name in names] for one in told]
    assert "\n30 patterns: queue_total_budget 9 -> 0\n" in cli("undo", job, 1, "--list", "--dry-run").out


def test_one_undo_takes_the_whole_list_back(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--file", listed, "--reason", "by file")
    assert "`undo 3 --list` takes them back" in answer.err
    dry_run = cli("undo", job, 2, "--list", "--dry-run").out
    assert dry_run.startswith("would undo 2, adjust, and its list: 3 adjustments\n")
    assert "adjustments removed: 1 (domain:one.test), 2 (sheet:small), 3 (queue:two.test)" in dry_run
    assert adjusted(job) == OF_GOOD
    answer = cli("undo", job, 2, "--list", "--reason", "too strict")
    assert (answer.code, answer.out) == (
        0,
        "undone 2, adjust, and its list, 3 adjustments: removed adjustment 1, 2, 3\n",
    )
    assert adjusted(job) == []
    told = cli("audit", job)
    assert "Undid the list of entry 2, 3 adjustments: removed adjustment 1, 2, 3." in told.out
    assert "2 of 3 of a list" in told.out
    with Reader(job / "frontier") as reader:
        *_, entry = reader.audit()
    assert (entry.command, entry.reason, entry.effect["entries"]) == ("undo", "too strict", [3, 2, 1])
    for number in (1, 3):
        outcome = cli("audit", job, number, "--outcome").out
        assert "until it was undone by 4, fetched 0 " in outcome and "unknown" not in outcome
    assert "1, adjust, is undone already" in cli("undo", job, 1).err
    assert "1, adjust, is undone already, with its list" in cli("undo", job, 1, "--list").err
    assert cli("undo", job, 4).code == 0
    assert adjusted(job) == OF_GOOD
    assert cli("undo", job, 1, "--list").code == 0 and adjusted(job) == [], "the undo was undone"


def test_the_undo_of_a_lists_undo_keeps_what_its_dry_run_promises(tmp_path: Path, listed: Path, cli: Cli) -> None:
    job = tmp_path / "retired"
    with Frontier.open(job / "frontier", Settings.from_dict({"frontier": {"queue_total_budget": 0}})) as frontier:
        frontier.schedule_many(f"http://h{n}.test/{page}" for n in range(3) for page in range(2))
        while frontier.lease(3):
            pass
    listed.write_text("".join(f"- {{match: 'queue:h{n}.test', set: {{queue_total_budget: 9}}}}\n" for n in range(3)))
    assert cli("adjust", job, "--file", listed).code == 0
    assert cli("undo", job, 1, "--list").code == 0
    with JobOperator(job, job / "frontier") as operator:
        shown = operator.dry_run("undo", {"id": 4})
    assert (shown["matched"], shown["uris"] + shown["others"]["after"]["uris"]) == (3, 6)
    assert cli("undo", job, 4).code == 0
    with Reader(job / "frontier") as reader:
        *_, entry = reader.audit()
    assert {name: entry.effect["promised"][name] for name in ("matched", "uris", "spend", "others")} == {
        name: shown[name] for name in ("matched", "uris", "spend", "others")
    }
    assert "promised: 3 queues matched" in cli("audit", job, entry.id, "--wide").out


def test_all_of_a_list_is_undone_or_none(job: Path, listed: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--file", listed).code == 0
    assert cli("adjust", job, "--match", "domain:one.test", "--total-budget", 7).code == 0
    for more in ((), ("--dry-run",)):
        answer = cli("undo", job, 3, "--list", *more)
        assert answer.code == 1 and "1 is not undone, because adjustment 4 sets the same settings" in answer.err
        assert [match for match, _ in adjusted(job)] == [
            "domain:one.test",
            "sheet:small",
            "queue:two.test",
            "domain:one.test",
        ]
    assert cli("undo", job, 3, "--list", "--force").code == 0
    assert adjusted(job) == [("domain:one.test", {"queue_total_budget": 7})]


def test_what_was_undone_by_itself_is_left_out(job: Path, listed: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--file", listed).code == 0
    assert cli("undo", job, 1).code == 0
    assert "2 adjustments: removed adjustment 2, 3" in cli("undo", job, 1, "--list").out
    assert adjusted(job) == []


def test_what_was_taken_out_since_is_left_out_by_force(job: Path, listed: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--file", listed).code == 0
    assert cli("adjust", job, "--remove", 1).code == 0
    assert "`undo --force` does it nevertheless" in cli("undo", job, 3, "--list").err
    assert len(adjusted(job)) == 2
    assert "its list: 2 adjustments" in cli("undo", job, 3, "--list", "--force", "--dry-run").out
    assert "its list, 2 adjustments: removed adjustment 2, 3" in cli("undo", job, 3, "--list", "--force").out
    assert adjusted(job) == []


def test_other_entries_are_of_no_list(job: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--total-budget", 7).code == 0
    assert cli("pause", job).code == 0
    assert "1, adjust, belongs to no list of adjustments: undo it alone" in cli("undo", job, 1, "--list").err
    assert "2, pause, belongs to no list of adjustments: undo it alone" in cli("undo", job, 2, "--list").err
    assert "there is no audit entry 99" in cli("undo", job, 99, "--list").err
    assert cli("undo", job, 1, "--list", "--discard").code == 2


def test_it_goes_alone(job: Path, listed: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--file", listed, "--total-budget", "5")
    assert answer.code == 2 and "without a pattern and settings" in answer.err
