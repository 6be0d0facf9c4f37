"""Values that name nothing are refused, with what was probably meant; patterns that match nothing say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.core.vocabulary import AUDITED
from budgetfrontier.engine.commands.operations import OPERATIONS, STEPWISE
from budgetfrontier.storage.reader import Reader
from tests.tools.cli.conftest import Cli


def test_the_audit_knows_every_operation() -> None:
    assert set(AUDITED) == {*OPERATIONS, *STEPWISE, "settings"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit", "JOB", "--operation", "adjst"], "invalid choice: 'adjst'; did you mean adjust?"),
        (["queues", "JOB", "--state", "RETIERD"], "did you mean RETIRED?"),
        (["report", "JOB", "--kind", "seed"], "did you mean seeds?"),
    ],
)
def test_a_value_of_a_closed_set_is_refused(stopped: Path, cli: Cli, arguments: list[str], told: str) -> None:
    answer = cli(*(stopped if one == "JOB" else one for one in arguments))
    assert answer.code == 2 and told in answer.err and not answer.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["queue", "JOB", "NAME"],
        ["audit", "JOB", "--queue", "NAME"],
        ["leases", "JOB", "--queue", "NAME"],
        ["retire", "JOB", "NAME"],
        ["unretire", "JOB", "NAME"],
        ["snooze", "JOB", "NAME", "--for", "1h"],
        ["wake", "JOB", "NAME"],
        ["delete", "JOB", "--queue", "NAME"],
        ["delete", "JOB", "--queue", "NAME", "--dry-run"],
    ],
)
def test_a_queue_that_is_not_there_is_an_error(stopped: Path, cli: Cli, arguments: list[str]) -> None:
    for name, meant in (("snozed.test", "; did you mean snoozed.test?"), ("nothing-like-it", ";"), ("ärch.test", ";")):
        answer = cli(*(stopped if one == "JOB" else name if one == "NAME" else one for one in arguments))
        assert answer.code == 1 and not answer.out
        assert f"there is no queue '{name}'{meant} `budgetfrontier queues" in answer.err


@pytest.mark.parametrize("command", [["--drop"], ["--replay"]])
def test_a_dead_letter_that_is_not_there_is_an_error_and_changes_none(job: Path, cli: Cli, command: list[str]) -> None:
    (line,) = cli("dead-letters", job, "--format", "csv").out.splitlines()[1:]
    answer = cli("dead-letters", job, *command, line.split(",")[0], 9999, 10**30)
    assert answer.code == 1 and f"there is no dead letter 9999, {10**30}; " in answer.err
    assert len(cli("dead-letters", job, "--format", "csv").out.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["undo", "JOB", "999"],
        ["undo", "JOB", "999", "--discard"],
        ["adjust", "JOB", "--remove", "999"],
        ["adjust", "JOB", "--remove", "999", "--dry-run"],
    ],
)
def test_an_id_that_is_not_there_is_an_error(stopped: Path, cli: Cli, arguments: list[str]) -> None:
    answer = cli(*(stopped if one == "JOB" else one for one in arguments))
    assert answer.code == 1 and "999" in answer.err and " lists " in answer.err


def test_somebody_whom_the_audit_does_not_have_is_an_error(stopped: Path, cli: Cli) -> None:
    answer = cli("audit", stopped, "--who", "alcie")
    assert answer.code == 1 and "the audit has nothing by 'alcie'; did you mean alice?" in answer.err
    assert "it has entries by alice" in cli("audit", stopped, "--who", "zz").err
    assert "nothing by 'ñ\\x1b'" in cli("audit", stopped, "--who", "ñ\x1b").err, "letters are shown as they are"
    assert cli("audit", stopped, "--who", "alice", "--operation", "wake").code == 0  # alice is there


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["queues", "--match", "*nosuch"], "no queue matches *nosuch"),
        (["queues", "--match", "queue:w[12]*"], "no queue matches queue:w[12]* (brackets are no wildcards here)"),
        (["queues", "--state", "READY"], "no queue matches the state READY"),
        (["export", "-", "--match", "*nosuch"], "no queue matches *nosuch"),
        (
            ["snooze", "--match", "w[12]*", "--for", "1h"],
            "selected by queue:w[12]* (brackets are no wildcards here)",
        ),
        (["delete", "--queue", "*nosuch"], "no queue matches *nosuch"),
        (["delete", "--queue", "x[yz]*", "--dry-run"], "no queue matches x[yz]*"),
        (["dead-letters", "--match", "*nosuch"], "no dead letter matches *nosuch"),
    ],
)
def test_a_pattern_that_matches_nothing_says_so(stopped: Path, cli: Cli, arguments: list[str], told: str) -> None:
    answer = cli(arguments[0], stopped, *arguments[1:])
    assert answer.code == 0 and told in answer.err


def test_listings_of_nothing_say_so(stopped: Path, cli: Cli) -> None:
    assert "no URI is leased" in cli("leases", stopped).err
    assert "no entry matches" in cli("audit", stopped, "--operation", "drop").err


def test_a_command_that_was_refused_is_not_shown_like_one_that_was_applied(
    stopped: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("undo", stopped, 999).code == 1
    monkeypatch.setenv("COLUMNS", "80")
    assert "Refused: " in cli("audit", stopped).out


def test_times_of_a_queue_are_those_of_people(stopped: Path, cli: Cli) -> None:
    lines = cli("queue", stopped, "gone.test").out.splitlines()
    (leased,) = [line for line in lines if line.startswith("last_lease_time:")]
    assert leased.endswith("Z") and ":" in leased.partition(":")[2]


def test_a_glob_of_queues_that_hold_nothing_is_not_said_to_match_none(stopped: Path, cli: Cli) -> None:
    answer = cli("delete", stopped, "--queue", "gone.*")
    assert answer.code == 0 and "deleted 0 URIs" in answer.out and "no queue" not in answer.err


@pytest.mark.parametrize(
    "written",
    ["SNOOZED.Test", "snoozed.test.", "http://snoozed.test/a?b", "https://Snoozed.test.:443/", "snoozed.test:80"],
)
def test_a_queue_is_found_however_its_host_is_written(stopped: Path, cli: Cli, written: str) -> None:
    answer = cli("queue", stopped, written)
    assert answer.code == 0 and "queue:                    snoozed.test\n" in answer.out
    assert f"{written} is in queue snoozed.test" in answer.err
    assert cli("leases", stopped, "--queue", written).code == 0
    assert cli("audit", stopped, "--queue", written).code == 0
    if "://" in written:
        refused = cli("retire", stopped, written)  # what changes something guesses nothing
        assert refused.code == 1 and "did you mean snoozed.test?" in refused.err
    else:  # the same host in another spelling is no guess
        assert "Queue snoozed.test is SNOOZED" in cli("explain", stopped, written).out
        assert cli("retire", stopped, written).out == "snoozed.test: SNOOZED -> RETIRED\n"


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_a_pattern_of_a_key_with_a_default_port_matches_the_queue_of_the_host(
    stopped: Path, cli: Cli, how: tuple[str, ...]
) -> None:
    answer = cli("adjust", stopped, "--match", "queues:snoozed.test:80,none.test:80", "--total-budget", 1, *how)
    assert "matches 1 queue\nno queue yet: none.test:80;" in answer.out
    assert cli("queues", stopped, "--match", "snoozed.test:443", "--format", "csv").out.count("\nsnoozed.test,") == 1


def test_a_deletion_from_an_empty_queue_named_with_a_port_does_not_say_that_there_is_none(
    stopped: Path, cli: Cli
) -> None:
    for how in ((), ("--dry-run",)):
        answer = cli("delete", stopped, "--queue", "gone.test:80", *how)
        assert answer.code == 0 and "0 URIs" in answer.out and "no queue" not in answer.err


def test_another_port_of_the_host_is_suggested(stopped: Path, cli: Cli) -> None:
    answer = cli("queue", stopped, "http://snoozed.test:8080/x")
    assert answer.code == 1 and "did you mean snoozed.test?" in answer.err


def test_several_names_that_are_near_are_suggested(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://host-{n:05}.example/" for n in range(0, 10_000, 10))
    answer = cli("queue", tmp_path, "host-0777.example")
    assert answer.code == 1 and "did you mean host-0" in answer.err and " or host-0" in answer.err


def test_a_mistyped_character_is_found_among_many_queues_that_begin_alike(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://host-{n:05}.example/" for n in range(10_000))
    for typed in ("host-7777.example", "host-077777.example", "host-o7777.example", "host-07777.exmaple"):
        answer = cli("queue", tmp_path, typed)
        assert answer.code == 1 and "host-07777.example" in answer.err


def test_a_snooze_until_a_time_that_is_past_says_so(cli: Cli, stopped: Path) -> None:
    answer = cli("snooze", stopped, "snoozed.test", "--until", "2020-01-01")
    assert answer.code == 0 and "that time is past, so that it changes nothing" in answer.err
    assert "Blocked queue snoozed.test until 2020-01-01T00:00:00Z, which changed nothing" in cli("audit", stopped).out
    many = cli("snooze", stopped, "--match", "*", "--until", "2020-01-01")
    assert (many.code, many.out.startswith("0 of 6 queues were blocked")) == (0, True), many.out
    assert "that time is past, so that it changes nothing" in many.err
    with Reader(stopped / "frontier") as reader:
        assert not any("kept" in entry.effect for entry in reader.audit())
