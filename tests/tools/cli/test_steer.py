"""Commands that change something: the same on a job that runs and on one that is stopped."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.engine.commands import deletion, operations, runner, state_preview
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.reports.operators import Applied
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.rules.trap_evidence import Evidence
from budgetfrontier.storage.reader import Reader
from budgetfrontier.testing import crash
from budgetfrontier.tools.cli import adjustments, common, removed, revive, steer, trap_holding
from tests.steering_commands import STEERING, has_option, parsers
from tests.support import audited, in_progress, make_settings, on_disk, pages, post, until
from tests.tools.cli.conftest import Cli


def look(job: Path, key: str) -> QueueRecord:
    with Reader(job / "frontier") as reader:
        record = reader.queue(key)
    assert record is not None
    return record


def crawl_state(job: Path) -> CrawlState:
    with Reader(job / "frontier") as reader:
        return reader.summary().state


def newest(job: Path) -> Any:
    with Reader(job / "frontier") as reader:
        return reader.audit(1)[0]


# -- commands on the queues that are selected


def test_queues_are_selected_by_pattern_state_and_key(job: Path, cli: Cli) -> None:
    dry = cli("retire", job, "--match", "*.test", "--state", "snoozed", "--dry-run")
    assert (dry.code, dry.out) == (
        0,
        "1 of 1 queue in state SNOOZED that matches queue:*.test would be retired: 1 SNOOZED -> RETIRED, with 2 URIs\n"
        "1 queue: snoozed.test\n",
    )
    assert dry.err == "dry run: nothing was changed\n" and look(job, "snoozed.test").state == "SNOOZED"
    done = cli("retire", job, "--match", "*.test", "--state", "snoozed", "--reason", "bulk")
    assert done.code == 0 and done.out == dry.out.replace("would be", "was")
    entry = newest(job)
    assert f"to take it back: budgetfrontier undo {job} {entry.id} (until then " in done.err
    assert (entry.args, entry.reason) == ({"match": "queue:*.test", "states": ["SNOOZED"]}, "bulk")
    assert look(job, "snoozed.test").by_name
    would = cli("undo", job, entry.id, "--dry-run")
    assert "would restore 1 queue: snoozed.test\n" in would.out
    assert cli("undo", job, entry.id).out == f"undone {entry.id}, retire: restored 1 queue\n"
    assert look(job, "snoozed.test").state != "RETIRED"
    assert cli("wake", job, "--queues", "Snoozed.TEST,capped.test").out.startswith(
        "2 of 2 queues that match queues:Snoozed.TEST,capped.test were woken: "
    )


def test_a_selection_that_selects_nothing_says_so_and_none_at_all_is_refused(job: Path, cli: Cli) -> None:
    before = len(audited(job))
    for arguments in ([], ["capped.test", "--state", "READY"], ["--match", "*", "--queues", "a"]):
        answer = cli("retire", job, *arguments)
        assert answer.code == 2 and "--match" in answer.err
    assert "not a match" in cli("retire", job, "--match", "group:").err
    assert len(audited(job)) <= before + 1
    none = cli("retire", job, "--match", "*", "--state", "in_process")
    assert "no queue in the state IN_PROCESS is selected by *; " in none.err
    none = cli("snooze", job, "--queues", "nowhere.test", "--for", "1h")
    longest = cli("snooze", job, "--queues", "capped.test", "--for", "1000000d")
    assert longest.code == 2 and 'got "1000000d", which is more than 3650d' in longest.err
    assert none.code == 0 and "no queue is selected by queues:nowhere.test" in none.err
    assert cli("set-queue", job, "--match", "*", "--interval", "5").code == 1
    some = cli("snooze", job, "--queues", "capped.test,nowhere.test", "--for", "1h", "--dry-run")
    assert some.code == 0 and "no queue: nowhere.test; check the spelling" in some.err
    some = cli("snooze", job, "--queues", "capped.test,nowhere.test", "--for", "1h")
    assert some.code == 0 and "no queue: nowhere.test; check the spelling" in some.err
    nope = cli("snooze", job, "--match", "group:nope", "--for", "1h")
    assert nope.code == 1 and 'no group is defined as "nope"' in nope.err
    nope = cli("snooze", job, "--match", "group:nope", "--for", "1h", "--dry-run")
    assert nope.code == 1 and 'no group is defined as "nope"' in nope.err


def test_what_selects_no_uri_and_no_letter_says_so(job: Path, cli: Cli) -> None:
    for options in ([], ["--dry-run"]):
        assert "no pending URI is selected" in cli("delete", job, "--match", "zzz*", *options).err
        for choice in (["--match", "zzz*"], ["--why", "*TIMED*"]):
            answer = cli("dead-letters", job, "--replay", *choice, *options)
            assert answer.code == 0 and "no dead letter is selected" in answer.err


def test_an_undo_of_an_undo_restores_the_queues_that_it_has_left(job: Path, cli: Cli) -> None:
    assert cli("snooze", job, "--match", "*", "--for", "1h").code == 0
    number = newest(job).id
    assert cli("snooze", job, "capped.test", "--for", "5h").code == 0
    dry = cli("undo", job, number, "--dry-run")
    assert "would leave 1 queue that changed since; --force restores them, too" in dry.out
    left = "left: capped.test: it is blocked until "
    assert left in dry.err
    answer = cli("undo", job, number)
    assert "1 queue changed since, and is left as it is" in answer.out and left in answer.err
    undo = newest(job).id
    assert f"to restore those left, too: budgetfrontier undo {job} {undo} --force (until then " in answer.err
    told = f"{number}, snooze, is undone already; `undo {undo} --force` restores what that has left"
    assert told in cli("undo", job, number, "--force").err
    assert f"undo {undo} --force" in cli("audit", job).out
    assert [row["id"] for row in json.loads(cli("removed", job, "--format", "json").out)] == [undo]
    assert "restored 0 queues; 1 queue changed since" in cli("undo", job, undo).out
    undo = newest(job).id
    assert "is undone already" in cli("undo", job, number, "--force").err
    rest = cli("undo", job, undo, "--force")
    assert rest.code == 0 and "restored 1 queue\n" in rest.out, rest
    assert look(job, "capped.test").wake_time < 2 * 3600 + time.time()
    assert "is undone already" in cli("undo", job, number, "--force").err
    assert not json.loads(cli("removed", job, "--format", "json").out)


def test_what_is_deleted_of_later_is_not_counted_by_queues(job: Path, cli: Cli) -> None:
    told = "8 URIs: 7 pending {} 3 queues, 1 scheduled for later\n"
    assert cli("delete", job, "--queue", "*.test", "--dry-run").out.startswith("would delete " + told.format("from"))
    assert cli("delete", job, "--queue", "*.test").out == "deleted " + told.format("from")
    number = newest(job).id
    assert cli("undo", job, number).out == f"undone {number}, delete: returned " + told.format("to")


def test_a_command_that_leaves_nothing_to_crawl_says_so(tmp_path: Path, cli: Cli) -> None:
    with on_disk(tmp_path, pause_at_finish=True) as f:
        f.schedule_many(pages("ab", 1))
    told = "the crawl is paused at its finish"
    assert told in cli("retire", tmp_path, "--match", "*").err
    assert told in cli("undo", tmp_path, 1).err


def test_a_dry_run_of_one_queue_changes_nothing(job: Path, cli: Cli) -> None:
    answer = cli("unretire", job, "named.test", "--dry-run")
    assert (answer.code, answer.out) == (0, "named.test: RETIRED -> INACTIVE\n")
    assert look(job, "named.test").state == "RETIRED"


def test_an_unretire_tells_of_the_queues_that_retire_again(job: Path, cli: Cli) -> None:
    again = "over a budget or quota still, and retires again at the next turn, with no URI tried"
    told = f"capped.test: RETIRED -> INACTIVE; it is {again}\n"
    assert cli("unretire", job, "capped.test", "--dry-run").out == told
    assert cli("unretire", job, "capped.test").out == told


# -- adjust


def test_a_dry_run_foresees_and_changes_nothing(job: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--match", "domain:capped.test", "--total-budget", 500, "--dry-run")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "domain:capped.test: queue_total_budget 0 -> 500",
        "matches 1 queue",
        "would revive 1 queue: capped.test",
        "  would fetch 3 of the URIs they hold now and spend 3, at most 500 once more come",
        "would retire 0 queues",
        "the scope is not known here (none is stored): what a crawler would disregard is counted as fetched",
    ]
    assert "nothing was changed" in answer.err
    assert look(job, "capped.test").state == "RETIRED"
    with Reader(job / "frontier") as reader:
        assert reader.adjustments == [] and [entry.command for entry in reader.audit()] == ["retire"]


def test_a_dry_run_names_a_queue_that_would_retire_among_those_that_are_not_retired_now(
    stopped: Path, cli: Cli
) -> None:
    out = cli("adjust", stopped, "--match", "queue:snoozed.test", "--replenish", 0, "--dry-run").out
    assert "would retire 1 queue: snoozed.test\n" in out
    assert "not retired now, with another budget: 1 queue; those that would retire are among them\n" in out


@pytest.mark.parametrize(
    ("match", "says_so"),
    [
        ("regex:test/[0-9]", True),
        ("surt:http://(test,snoozed,)/1", True),
        ("surt:(test,snoozed,", False),
        ("domain:snoozed.test", False),
        ("queue:snoozed.test", False),
        ("*", False),
        ("regex:nothing-has-this", False),
    ],
)
def test_a_dry_run_says_that_the_next_uri_decides_where_others_may_differ(
    stopped: Path, cli: Cli, match: str, says_so: bool
) -> None:
    options = ("adjust", stopped, "--match", match, "--total-budget", 9, "--dry-run")
    assert ("each queue counts by its next URI" in cli(*options).out) is says_so
    found = json.loads(cli(*options, "--format", "json").out)
    assert found["by_next_uri"] is says_so or not found["matched"]


def test_a_dry_run_says_that_the_next_uri_decides_where_a_queue_has_several_hosts(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(
        tmp_path / "frontier", Settings.from_dict({"frontier": {"queue_assignment_policy": "registered-domain"}})
    ) as frontier:
        frontier.schedule_many(["http://a.site.test/", "http://b.site.test/"])
    dry_run = ("--total-budget", 9, "--dry-run")
    assert "by its next URI" in cli("adjust", tmp_path, "--match", "host:a.site.test", *dry_run).out
    assert "by its next URI" not in cli("adjust", tmp_path, "--match", "queue:site.test", *dry_run).out


def test_a_dry_run_asks_no_engine(stopped: Path, cli: Cli) -> None:
    with Frontier.open(stopped / "frontier"):  # by a process that will not look into its mailbox
        answer = cli("adjust", stopped, "--match", "queue:capped.test", "--total-budget", 500, "--dry-run")
        assert (answer.code, "would revive 1 queue: capped.test" in answer.out) == (0, True)


def test_a_dry_run_says_how_many_queues_it_matches(stopped: Path, cli: Cli) -> None:
    assert "matches 3 queues\n" in cli("adjust", stopped, "--match", "host:*ed.test", "--replenish", 5, "--dry-run").out
    answer = cli("adjust", stopped, "--match", "domain:nowhere.test", "--replenish", 5, "--dry-run").out
    assert "matches no URI that is next in its queue; it applies to those that wait behind" in answer
    answer = cli("adjust", stopped, "--match", "queue:nowhere.test", "--replenish", 5, "--dry-run").out
    assert "matches no queue yet; it will count for queues that come later\n" in answer


def test_a_dry_run_names_what_would_retire(job: Path, cli: Cli) -> None:
    plan = json.loads(cli("adjust", job, "--replenish", 0, "--dry-run", "--format", "json").out)
    assert plan["retired"] == ["snoozed.test"] and plan["retired_count"] == 1
    assert look(job, "snoozed.test").state == "SNOOZED"


def test_adjust_revives_and_is_audited(job: Path, request: pytest.FixtureRequest, cli: Cli) -> None:
    answer = cli(
        "adjust", job, "--match", "domain:capped.test", "--set", "queue_total_budget=500", "--set",
        "politeness.min_delay=2h", "--set", "politeness.max_delay=2h", "--reason", "worth a look", "--who", "bob",
    )  # fmt: skip
    assert answer.code == 0
    assert "queue_total_budget 0 -> 500, politeness.min_delay 1h -> 2h" in answer.out
    assert "1 retired queue is reconsidered" in answer.out
    assert look(job, "named.test").state == "RETIRED"  # by name: no adjustment revives it
    if "running" in request.fixturenames:
        until(lambda: look(job, "capped.test").state == "SNOOZED")  # activated: its hour is not over
    else:
        assert look(job, "capped.test").state == "INACTIVE"
    entry = newest(job)
    assert (entry.command, entry.who, entry.reason) == ("adjust", "bob", "worth a look")
    assert entry.effect["before"]["queue_total_budget"] == 0
    assert entry.effect["after"]["queue_total_budget"] == 500


@pytest.mark.parametrize("match", ["domain:cappde.test", "queue:cappde.*", "regex:cappde", "host:cappde.test"])
def test_adjust_warns_of_a_match_of_nothing(job: Path, cli: Cli, match: str) -> None:
    answer = cli("adjust", job, "--match", match, "--total-budget", 5)
    what = "no queue yet" if match.startswith("queue:") else "no URI that is next in its queue"
    assert answer.code == 0 and f"{match} matches {what}; it" in answer.err
    assert newest(job).args == {"match": match, "set": {"queue_total_budget": 5}}
    told = cli("adjust", job, "--match", match.replace("cappde", "later"), "--total-budget", 5, "--format", "json")
    assert (told.code, told.err) == (0, "")


@pytest.mark.parametrize("match", ["regex:/second", "surt:(test,one,)/second", "host:tw?.test"])
def test_adjust_does_not_deny_what_waits_behind_the_next_uri(tmp_path: Path, cli: Cli, match: str) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        uris = ["http://one.test/first", "http://one.test/second", "http://two.test/"]
        frontier.schedule_many(CrawlUri(url, queue="one.test") for url in uris)
    for options in [], ["--dry-run"]:
        answer = cli("adjust", tmp_path, "--match", match, "--set", "precedence=2", *options)
        told = answer.out + answer.err
        assert "no queue yet" not in told and "it applies to those that wait behind" in told


@pytest.mark.parametrize(
    "match", ["*", "domain:a.test", "host:A*.test", "host:?.test", "queue:a*", "surt:(test,a,", r"regex:/\d$"]
)
@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_adjust_tells_what_it_sets_by_any_match(tmp_path: Path, cli: Cli, match: str, options: list[str]) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/1", "http://ab.test/1"])
    told = cli("adjust", tmp_path, "--match", match, "--set", "precedence=2", "--set", "retry.delay=1m", *options).out
    assert told.splitlines()[0] == f"{match}: precedence 3 -> 2, retry.delay 15m -> 1m"


def test_adjust_of_what_no_queue_matches_claims_no_value_that_may_differ(tmp_path: Path, cli: Cli) -> None:
    Frontier.open(tmp_path / "frontier").close()
    cli("adjust", tmp_path, "--match", "domain:capped.test", "--total-budget", 5)
    told = cli("adjust", tmp_path, "--match", "host:*.capped.test", "--total-budget", 9)
    assert told.out.startswith("host:*.capped.test: queue_total_budget -> 9\n")
    told = cli("adjust", tmp_path, "--match", "host:www.capped.test", "--total-budget", 7)
    assert told.out.startswith("host:www.capped.test: queue_total_budget 9 -> 7\n")


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_adjust_tells_values_by_groups_of_queues(tmp_path: Path, cli: Cli, options: list[str]) -> None:
    capped = [{"match": "queue:trap?.test", "set": {"queue_total_budget": 5}}]
    settings = Settings.from_dict({"frontier": {"queue_total_budget": 20000}, "overrides": capped})
    with Frontier.open(tmp_path / "frontier", settings) as frontier:
        frontier.schedule_many(f"http://trap{n}.test/" for n in range(12))
    told = cli("adjust", tmp_path, "--match", "queue:trap*", "--total-budget", 500, *options).out
    assert told.splitlines()[:3] == [
        "queue:trap*: queue_total_budget 5 -> 500: 10 queues",
        "queue:trap*: queue_total_budget 20000 -> 500: 2 queues",
        "matches 12 queues",
    ]
    if not options:
        effect = newest(tmp_path).effect
        assert [(g["before"], g["queues"]) for g in effect["groups"]] == [
            ({"queue_total_budget": 5}, 10),
            ({"queue_total_budget": 20000}, 2),
        ]
        assert (effect["before"], effect["after"]) == ({"queue_total_budget": None}, {"queue_total_budget": 500})


def test_adjust_names_queues(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(f"http://{letter}.test/" for letter in "abc")
    told = cli("adjust", tmp_path, "--queues", "a.test,c.test", "--total-budget", 5)
    assert (told.code, told.out.splitlines()[1]) == (0, "matches 2 queues")
    assert [look(tmp_path, f"{letter}.test").total_budget for letter in "abc"] == [5, -1, 5]
    assert newest(tmp_path).args["match"] == "queues:a.test,c.test"
    assert cli("adjust", tmp_path, "--queues", "a.test", "--match", "queue:a", "--total-budget", 5).code == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_adjust_names_the_keys_that_are_those_of_no_queue(tmp_path: Path, cli: Cli, options: tuple[str, ...]) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
    told = cli("adjust", tmp_path, "--queues", "a.test,nope", "--total-budget", 5, *options).out
    assert "matches 1 queue\nno queue yet: nope; check the spelling" in told
    none = cli("adjust", tmp_path, "--queues", "nope", "--total-budget", 5, *options)
    assert "matches no queue yet" in none.out + none.err and "no queue yet: nope" not in none.out


def test_commands_say_that_they_look_at_many_queues(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjustments, "MANY", 2)
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
    assert "comparing 2 queues with * ..." in cli("adjust", tmp_path, "--total-budget", 5).err
    assert "comparing" not in cli("adjust", tmp_path, "--queues", "a.test", "--total-budget", 6).err
    assert "comparing 2 queues with queue:*.test ..." in cli("wake", tmp_path, "--match", "*.test", "--dry-run").err
    assert "comparing" not in cli("wake", tmp_path, "a.test", "--dry-run").err
    assert "comparing" not in cli("wake", tmp_path, "--queues", "a.test", "--dry-run").err


def test_what_partitions_have_not_discarded_yet_is_not_said_to_be_gone(
    stopped: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("delete", stopped, "--match", "*").code == 0
    waits = Applied(None, [], left="partition 1 has not applied it yet")
    monkeypatch.setattr(removed, "give", lambda *given: (waits, 1))
    answer = cli("removed", stopped, "--discard")
    assert (answer.code, answer.out) == (1, "discarded 0 bytes of 0 commands\n")


def test_adjust_of_everything(job: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--replenish", 7)
    assert answer.code == 0 and answer.out.startswith("*: balance_replenish_amount 3000 -> 7\n")
    assert look(job, "snoozed.test").balance_replenish_amount == 7


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "nothing to change"),
        (["--set", "queue_total_budget"], 2, "is not NAME=VALUE"),
        (["--set", "x={"], 2, "not YAML"),
        (["--total-budget", "many"], 2, 'expected a whole number, got "many"'),
        (["--total-budget", "5", "--set", "queue_total_budget=6"], 2, "queue_total_budget is set twice"),
        (["--replenish", "5", "--set", "balance-replenish-amount=5"], 2, "balance_replenish_amount is set twice"),
        (["--set", "precedence=1", "--set", "queue_precedence=2"], 2, "precedence is set twice"),
        (["--set", "queue_total_budgets=3"], 4, "queue_total_budget"),
        (["--set", "hold_queues=true"], 4, "whole frontier"),
        (["--set", "queue_total_budget=soon"], 4, "whole number"),
        (["--set", "cost_policy=wags"], 4, "wag"),
        (["--match", "example.org", "--total-budget", "3"], 4, "domain:example.org"),
        (["--match", "regex:(", "--total-budget", "3"], 4, "regular expression"),
    ],
)
def test_adjust_refuses(job: Path, cli: Cli, options: list[str], code: int, message: str) -> None:
    answer = cli("adjust", job, *options)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err and "Traceback" not in answer.err
    with Reader(job / "frontier") as reader:
        assert reader.adjustments == [] and [entry.command for entry in reader.audit()] == ["retire"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["undo", "x"], "the id of an entry, as `audit` lists it"),
        (["adjust", "--remove", "x"], "the id of an entry, as `audit` lists it"),
        (["snooze", "a.test", "--until", "x"], "a time in ISO 8601, such as 2026-07-01T12:00Z, or epoch seconds"),
        (["queues", "--limit", "x"], "a whole number"),
        (["set-queue", "a.test", "--limit", "x"], "a whole number"),
        (["dead-letters", "--drop", "1/x"], "the id of a dead letter, as `dead-letters` lists it, or `all`"),
    ],
)
def test_an_argument_that_cannot_be_read_is_refused_with_what_is_expected(
    tmp_path: Path, cli: Cli, command: list[str], message: str
) -> None:
    name, *options = command
    answer = cli(name, tmp_path, *options)
    assert answer.code == 2 and f"expected {message}, got " in " ".join(answer.err.split())


# -- queues


def test_retire_and_unretire(job: Path, cli: Cli) -> None:
    answer = cli("retire", job, "snoozed.test", "--reason", "spam")
    assert (answer.code, answer.out) == (0, "snoozed.test: SNOOZED -> RETIRED\n")
    record = look(job, "snoozed.test")
    assert record.state == "RETIRED" and record.by_name and record.queued == 2
    assert newest(job).reason == "spam"
    assert cli("unretire", job, "snoozed.test").out == "snoozed.test: RETIRED -> INACTIVE\n"
    assert not look(job, "snoozed.test").by_name
    until(lambda: look(job, "snoozed.test").state in ("INACTIVE", "SNOOZED"))


def test_what_becomes_of_a_queue_that_stays_retired_is_told(stopped: Path, cli: Cli) -> None:
    told = "capped.test: retired by name now, so that no change of settings revives it\n"
    assert cli("retire", stopped, "capped.test", "--dry-run").out == told
    assert cli("retire", stopped, "capped.test").out == told
    assert cli("retire", stopped, "capped.test").out == "capped.test: RETIRED -> RETIRED\n"


def test_snooze_and_wake(job: Path, cli: Cli) -> None:
    before = time.time()
    answer = cli("snooze", job, "snoozed.test", "--for", "2h")
    assert answer.code == 0 and answer.out.startswith("snoozed.test: SNOOZED -> SNOOZED, until 20")
    assert before + 7200 <= look(job, "snoozed.test").wake_time <= time.time() + 7200
    assert cli("snooze", job, "snoozed.test", "--until", "2031-02-03T04:05:06").code == 0
    assert look(job, "snoozed.test").wake_time == 1_927_857_906.0
    assert cli("snooze", job, "snoozed.test", "--until", "2031-02-03T05:05:06+00:00").code == 0
    assert look(job, "snoozed.test").wake_time == 1_927_861_506.0
    assert cli("snooze", job, "snoozed.test", "--until", "1950000000").code == 0
    assert look(job, "snoozed.test").wake_time == 1_950_000_000.0
    answer = cli("wake", job, "snoozed.test")
    assert answer.code == 0 and answer.out.endswith(", blocked no more\n")
    until(lambda: look(job, "snoozed.test").wake_time < 1_950_000_000.0)


def test_a_snooze_that_shortens_nothing_says_so(stopped: Path, cli: Cli) -> None:
    assert cli("snooze", stopped, "snoozed.test", "--until", "1950000000").err == ""
    answer = cli("snooze", stopped, "snoozed.test", "--until", "1940000000")
    assert answer.code == 0 and answer.out.endswith("until 2031-10-17T10:40:00Z\n")
    assert answer.err.startswith("it waits until 2031-10-17T10:40:00Z already: a snooze shortens no wait; ")
    told = cli("audit", stopped).out
    assert "which changed nothing: it waits until 2031-10-17T10:40:00Z already." in told
    assert cli("wake", stopped, "snoozed.test").out.endswith(", blocked no more\n")
    assert "blocked" not in cli("wake", stopped, "snoozed.test").out
    assert cli("snooze", stopped, "snoozed.test", "--until", "1940000000").err == ""


@pytest.mark.parametrize("options", [[], ["--for", "soon"], ["--until", "tomorrow"], ["--for", "1h", "--until", "5"]])
def test_snooze_needs_a_time(stopped: Path, cli: Cli, options: list[str]) -> None:
    answer = cli("snooze", stopped, "snoozed.test", *options)
    assert answer.code == 2 and "usage:" in answer.err


def test_a_duration_is_refused_as_in_yaml(stopped: Path, cli: Cli) -> None:
    expected = 'argument --for: expected a duration (seconds, or such as 500ms, 3s, 15m, "1h30m", 2d), got "soon"'
    assert expected in cli("snooze", stopped, "snoozed.test", "--for", "soon").err


def test_a_key_with_a_line_feed_is_printed_on_one_line(tmp_path: Path, cli: Cli) -> None:
    key = "a\nb"
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://a.test/", queue=key))
    assert cli("retire", tmp_path, key).out == "a\\nb: INACTIVE -> RETIRED\n"
    assert cli("snooze", tmp_path, key, "--for", "1h").out.startswith("a\\nb: RETIRED -> ")


@pytest.mark.parametrize("command", ["retire", "unretire", "wake"])
def test_an_unknown_queue_is_an_error(job: Path, cli: Cli, command: str) -> None:
    answer = cli(command, job, "nowhere.test")
    assert (answer.code, answer.out) == (1, "")
    assert "nowhere.test" in answer.err


# -- delete


def test_delete_by_queue(job: Path, cli: Cli) -> None:
    answer = cli("delete", job, "--queue", "*ped.test", "--reason", "a trap", "--who", "bob")
    assert (answer.code, answer.out) == (0, "deleted 3 URIs from 1 queue\n")
    assert look(job, "capped.test").queued == 0 and look(job, "snoozed.test").queued == 2
    entry = newest(job)
    assert (entry.command, entry.who, entry.reason) == ("delete", "bob", "a trap")
    size = entry.effect.pop("kept")["bytes"]
    assert entry.effect == {"deleted": 3, "queues": 1, "cost": 3}
    take_back = f"to take it back: budgetfrontier undo {job} {entry.id} (until then {size:,} bytes are kept"
    assert take_back in answer.err


def test_a_deletion_is_taken_back(job: Path, cli: Cli) -> None:
    cli("delete", job, "--queue", "*ped.test")
    number = newest(job).id
    assert f"undo {number}" in cli("audit", job, "--format", "csv").out
    assert cli("undo", job, number).out == f"undone {number}, delete: returned 3 URIs to 1 queue\n"
    assert f"undo {number}" not in cli("audit", job, "--format", "csv").out
    assert cli("undo", job, number).code == 1
    assert cli("delete", job, "--queue", "*ped.test").out == "deleted 3 URIs from 1 queue\n"
    number = newest(job).id
    answer = cli("undo", job, number, "--discard")
    assert answer.out.startswith("discarded ") and answer.out.endswith(f"{number}, delete, had kept\n")
    assert "has discarded what was kept" in cli("undo", job, number).err
    assert "was discarded already, by " in cli("undo", job, number, "--discard").err


def test_a_deletion_for_good_is_not(job: Path, cli: Cli) -> None:
    answer = cli("delete", job, "--queue", "*ped.test", "--for-good")
    assert (answer.code, answer.err) == (0, "")
    answer = cli("undo", job, newest(job).id)
    assert answer.code == 1 and "was for good" in answer.err


def test_a_changed_queue_is_refused_unless_forced(job: Path, cli: Cli) -> None:
    cli("delete", job, "--queue", "*ped.test")
    number = newest(job).id
    cli("import", job, "http://capped.test/new", "--force")
    answer = cli("undo", job, number)
    assert (answer.code, "has changed since: 1 URI has come" in answer.err) == (1, True)
    assert cli("undo", job, number, "--force").code == 0


def test_delete_by_pattern_and_by_both(job: Path, cli: Cli) -> None:
    assert cli("delete", job, "--pattern", "/1$", "--queue", "snoozed.*").out == "deleted 1 URI from 1 queue\n"
    assert (look(job, "snoozed.test").queued, look(job, "capped.test").queued) == (1, 3)
    assert cli("delete", job, "--pattern", "/[12]$").out == "deleted 4 URIs from 3 queues\n"
    assert cli("delete", job, "--pattern", "/[12]$").out == "deleted 0 URIs from 0 queues\n"
    assert cli("verify", job).code == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "--queue GLOB, --pattern REGEX"),
        (["--queue", ""], 2, "--queue GLOB, --pattern REGEX"),
        (["--match", "", "--state", "RETIRED"], 2, "none of them empty"),
        (["--queue", "", "--pattern", "1"], 2, "none of them empty"),
        (["--queue", "*", "--pattern", ""], 2, "none of them empty"),
        (["--pattern", "("], 1, "not a valid regular expression"),
    ],
)
def test_delete_refuses(job: Path, cli: Cli, options: list[str], code: int, message: str) -> None:
    answer = cli("delete", job, *options)
    assert (answer.code, answer.out) == (code, "") and message in answer.err
    assert look(job, "capped.test").queued == 3


@pytest.mark.parametrize(
    "options",
    [
        *(["--queue", "*ped.test"], ["--pattern", "/[12]$"], ["--queue", "later.test"], ["--queue", "gone.test"]),
        *(["--match", "host:capped.test"], ["--queues", "capped.test,later.test"], ["--state", "RETIRED"]),
    ],
)
def test_a_dry_run_of_a_deletion_changes_nothing(job: Path, cli: Cli, options: list[str]) -> None:
    before = len(audited(job))
    answer = cli("delete", job, *options, "--dry-run")
    assert (answer.code, answer.err) == (0, "dry run: nothing was changed\n")
    assert len(audited(job)) == before
    foreseen, cost, totals = answer.out.splitlines()
    assert totals == "queues that are neither RETIRED nor INELIGIBLE hold 2 in all; scheduled for later: 1"
    assert cost.startswith("those pending would cost ")
    assert cli("delete", job, *options).out == foreseen.replace("would delete", "deleted") + "\n"


def test_a_dry_run_of_a_deletion_refuses_what_the_deletion_refuses(job: Path, cli: Cli) -> None:
    answer = cli("delete", job, "--pattern", "(", "--dry-run")
    assert (answer.code, answer.out) == (1, "") and "not a valid regular expression" in answer.err


# -- commands that take long


@pytest.fixture
def busy(stopped: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[Path]:
    """The job, run by this process, with a deletion in progress."""
    monkeypatch.setattr(runner, "STEP", 2)
    monkeypatch.setattr(common, "ANSWER_TIMEOUT", 0.0)  # after `cli` has set it
    with Frontier.open(stopped / "frontier") as frontier:
        mailbox = Mailbox(stopped / "frontier")
        mailbox.post(Command("delete", {"queue": "*"}, "alice", ""))
        mailbox.close()
        frontier.commit()
        yield stopped
        for _ in range(20):
            frontier.commit()
        assert [entry.command for entry in frontier.audit()[-2:]] == ["delete", "retire"]


def test_a_command_behind_one_that_takes_long_is_in_progress(busy: Path, cli: Cli) -> None:
    answer = cli("retire", busy, "capped.test")
    assert (answer.code, answer.out) == (0, "")
    assert "delete by alice is in progress" in answer.err
    assert "your command comes after it" in answer.err and "`budgetfrontier audit JOB`" in answer.err
    for given in (["audit", busy], ["removed", busy], ["undo", busy, 99, "--dry-run"]):
        assert "delete by alice is in progress" in cli(*given).err, given
    assert "what the command in progress keeps is listed once that is done" in cli("removed", busy).err


def test_adjust_knows_a_glob_without_its_kind(job: Path, cli: Cli) -> None:
    answer = cli("adjust", job, "--match", "h*.test", "--replenish", 7)
    assert answer.code == 4 and 'did you mean "queue:h*.test"?' in answer.err


# -- the crawl


def test_pause_resume_and_terminate(job: Path, cli: Cli) -> None:
    assert cli("pause", job, "--reason", "maintenance").out == "RUNNING -> PAUSED\n"
    with Reader(job / "frontier") as reader:
        summary = reader.summary()
    assert (summary.state, summary.pause_reason) == (CrawlState.PAUSED, "maintenance")
    assert cli("resume", job).out == "PAUSED -> RUNNING\n"
    assert crawl_state(job) is CrawlState.RUNNING
    assert cli("terminate", job, "--reason", "enough").out == "RUNNING -> TERMINATED\n"
    assert crawl_state(job) is CrawlState.TERMINATED
    assert newest(job).reason == "enough"
    for command in ("resume", "pause"):
        answer = cli(command, job)
        assert (answer.code, answer.out) == (1, "TERMINATED -> TERMINATED\n")
        assert "terminated" in answer.err and "crawl CONFIG --job DIR" in answer.err
    assert cli("terminate", job).code == 0


@pytest.mark.parametrize("answer", ["y", "Yes", "n", ""])
def test_a_person_is_asked_before_a_crawl_ends_for_good(
    job: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(steer, "asks", lambda: True)

    def ask(question: str) -> str:
        questions.append(question)
        return answer

    monkeypatch.setattr("builtins.input", ask)
    given = cli("terminate", job)
    assert questions == [f"{job}: end this crawl for good? No command undoes it. [y/N] "]
    ends = answer.lower() in ("y", "yes")
    assert (given.code, crawl_state(job) is CrawlState.TERMINATED) == (0 if ends else 1, ends)
    assert ends or "`pause` stops the crawl so that it can go on" in given.err
    assert cli("terminate", job, "--yes").code == 0 and len(questions) == 1


def test_nothing_is_put_back_into_a_crawl_that_was_terminated(job: Path, cli: Cli, tmp_path: Path) -> None:
    cli("terminate", job)
    log = tmp_path / "crawl.log"
    log.write_text("2026-11-20T10:00:00.000Z -5000 - http://new.test/ L - no-type #000 - - - -\n")
    for command in (["revive", job, "--log", log, "--status", "-5000"], ["dead-letters", job, "--replay", "all"]):
        answer = cli(*command)
        assert (answer.code, answer.out) == (1, "")
        assert "terminated" in answer.err and "crawl CONFIG --job DIR" in answer.err
    assert [entry.command for entry in audited(job)][-1] == "terminate"


def test_resume_of_a_crawl_that_nobody_runs_says_how_to_start_it(job: Path, cli: Cli) -> None:
    cli("pause", job)
    with Reader(job / "frontier") as reader:
        runs = reader.lock_pid() is not None
    note = cli("resume", job).err
    assert note == ("" if runs else f"no process runs this crawl; to go on: budgetfrontier crawl CONFIG --job {job}\n")


def test_the_reason_for_a_pause_has_a_default(stopped: Path, cli: Cli) -> None:
    cli("pause", stopped)
    with Reader(stopped / "frontier") as reader:
        assert reader.summary().pause_reason == "operator"


def test_what_was_disregarded_is_revived_once(job: Path, cli: Cli) -> None:
    logs = job / "logs"
    logs.mkdir()
    urls = [f"http://away.test/{number}" for number in range(3)]
    lines = (
        f"2026-11-22T00:00:0{number}.000Z -5000          - {url} L http://a.test/ - #000 - - - out_of_scope:_max_hops\n"
        for number, url in enumerate([*urls, urls[0]])
    )
    (logs / "crawl.log").write_text("".join(lines))
    assert cli("revive", job, "--status", "-5000", "--dry-run").out == "would revive 3 URIs\n"
    assert cli("revive", job, "--status", "-5000", "--reason", "a mistake", "--who", "me").out == "revived 3 URIs\n"
    entry = newest(job)
    assert (entry.who, entry.reason, entry.effect["added"]) == ("me", "a mistake", 3)
    assert look(job, "away.test").enqueued == 3
    assert cli("revive", job, "--status", "-5000").out == "revived 0 URIs\n"
    assert cli("revive", job, "--status", "-5000", "--since", "").out == "revived 3 URIs\n"
    for since, count in ("2026-11-22", 3), ("2026-11-22T01:00:01.500+01:00", 2), ("2026-11-22T00:00:02Z", 1):
        answer = cli("revive", job, "--status", "-5000", "--since", since, "--dry-run")
        assert answer.out == f"would revive {count} URI{'s' if count > 1 else ''}\n", since
    assert "or an age, such as 2h or 3d" in cli("revive", job, "--status", "-5000", "--since", "yesterday").err
    for age in "2h", "40000d":  # the second is before 1970
        assert cli("revive", job, "--status", "-5000", "--since", age, "--dry-run").code == 0
    assert cli("revive", job, "--status", "-9998").out == "revived 0 URIs\n"
    assert cli("revive", job, "--status", "-5xxx").code == 2
    for status in "200", "404", "5xx", "-2":
        assert cli("revive", job, "--status", status).out == "revived 0 URIs\n"
    assert cli("revive", job, "--status", "-5000", "--log", logs / "none").code == 1


def disregarded(job: Path, count: int) -> None:
    """Write a crawl.log of so many URIs of one host that were out of scope, one each second."""
    lines = (f"2026-11-22T00:00:0{n}.000Z -5000 - http://away.test/{n} L - - #000 - - - -\n" for n in range(count))
    (job / "logs").mkdir()
    (job / "logs" / "crawl.log").write_text("".join(lines))


def test_what_an_interrupted_revival_left_in_the_mailbox_is_revived_once(
    stopped: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revive, "CHUNK", 2)
    disregarded(stopped, 5)
    mailbox = Mailbox(stopped / "frontier")
    for first in 0, 2:
        args = {
            "uris": [{"url": f"http://away.test/{number}", "force": True} for number in (first, first + 1)],
            "revived": "-5000",
            "upto": f"2026-11-22T00:00:0{first + 1}.000Z",
        }
        mailbox.post(Command("schedule", args, "me", ""))
    mailbox.close()
    assert cli("revive", stopped, "--status", "-5000", "--dry-run").out == "would revive 1 URI\n"
    assert cli("revive", stopped, "--status", "-5000").out == "revived 1 URI\n"
    assert look(stopped, "away.test").enqueued == 5


def test_what_an_interrupted_revival_is_in_the_middle_of_is_revived_once(
    stopped: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEP", 1)
    disregarded(stopped, 9)
    uris = [{"url": f"http://away.test/{number}", "force": True} for number in range(9)]
    post(stopped / "frontier", "schedule", uris=uris, revived="-5000", upto="2026-11-22T00:00:08.000Z")
    frontier = Frontier.open(stopped / "frontier")
    frontier.commit()
    assert in_progress(frontier)
    crash(frontier)
    assert look(stopped, "away.test").enqueued < 9
    assert cli("revive", stopped, "--status", "-5000").out == "revived 0 URIs\n"
    with Frontier.open(stopped / "frontier") as frontier:
        while frontier.next_ready_in() == 0.0 and in_progress(frontier):
            frontier.commit()
    assert look(stopped, "away.test").enqueued == 9


# -- the list of adjustments


def test_adjustments_are_listed_and_withdrawn(job: Path, cli: Cli) -> None:
    assert cli("adjust", job, "--list").out.split() == ["id", "match", "set", "who", "when", "reason"]
    cli("adjust", job, "--match", "domain:capped.test", "--total-budget", 500, "--who", "bob", "--reason", "a look")
    cli("adjust", job, "--match", "queue:snoozed.test", "--set", "precedence=2", "--who", "anna")
    rows = json.loads(cli("adjust", job, "--list", "--format", "json").out)
    assert [(row["id"], row["match"], row["set"], row["who"], row["reason"]) for row in rows] == [
        (2, "domain:capped.test", {"queue_total_budget": 500}, "bob", "a look"),
        (3, "queue:snoozed.test", {"precedence": 2}, "anna", ""),
    ]
    assert cli("adjust", job, "--list", "--format", "csv").out.splitlines()[2].startswith("3,queue:snoozed.test,")
    answer = cli("adjust", job, "--remove", 2, "--dry-run")
    assert answer.out.splitlines()[0] == "domain:capped.test: queue_total_budget 500 -> 0"
    assert (
        "nothing was changed" in answer.err and len(json.loads(cli("adjust", job, "--list", "--format=json").out)) == 2
    )
    answer = cli("adjust", job, "--remove", 2, "--who", "eve")
    assert answer.out.splitlines()[:2] == ["domain:capped.test: queue_total_budget 500 -> 0", "matches 1 queue"]
    assert look(job, "capped.test").total_budget == 0
    entry = newest(job)
    assert (entry.command, entry.who, entry.args) == ("withdraw", "eve", {"id": 2})
    assert entry.effect["withdrawn"] == {"id": 2, "match": "domain:capped.test", "set": {"queue_total_budget": 500}}
    again = cli("adjust", job, "--remove", 2)
    assert (again.code, "adjustment 2 is not in force" in again.err) == (1, True)
    assert cli("adjust", job, "--remove", 3, "--total-budget", 5).code == 2


def test_adjust_names_the_adjustment_that_it_replaces(stopped: Path, cli: Cli) -> None:
    cli("adjust", stopped, "--match", "queue:capped.test", "--total-budget", 5)
    answer = cli("adjust", stopped, "--match", "queue:capped.test", "--total-budget", 6)
    assert "replaces adjustment 2: queue_total_budget 5\n" in answer.out
    assert newest(stopped).effect["replaced"] == [
        {"id": 2, "match": "queue:capped.test", "set": {"queue_total_budget": 5}}
    ]


def test_undo_takes_back_what_the_audit_has(job: Path, cli: Cli) -> None:
    assert cli("undo", job, 1).out == "undone 1, retire: named.test: state RETIRED -> INACTIVE\n"
    cli("adjust", job, "--match", "queue:capped.test", "--total-budget", 5)
    cli("adjust", job, "--match", "queue:capped.test", "--total-budget", 6)
    assert "no undo of it would be taken now: what 3 has changed is not in force any more" in cli("audit", job, 3).err
    assert "no undo" not in cli("audit", job, 4).err
    answer = cli("undo", job, 4, "--who", "eve", "--reason", "a mistake")
    assert answer.out == "undone 4, adjust: removed adjustment 4; restored adjustment 3\n"
    assert look(job, "capped.test").total_budget == 5
    assert (newest(job).command, newest(job).who, newest(job).args["id"]) == ("undo", "eve", 4)
    again = cli("undo", job, 4)
    assert (again.code, again.out, "undone already" in again.err) == (1, "", True)
    assert cli("undo", job, 77).code == 1


def test_a_dry_run_of_an_undo_tells_what_it_would_do_and_changes_nothing(job: Path, cli: Cli) -> None:
    cli("adjust", job, "--match", "queue:capped.test", "--total-budget", 5)
    cli("delete", job, "--queue", "*ped.test")
    cli("dead-letters", job, "--drop", "all")
    before = newest(job).id

    def tried(number: int, *options: str) -> str:
        answer = cli("undo", job, number, "--dry-run", *options)
        assert (answer.code, answer.err) == (0, "dry run: nothing was changed\n")
        return answer.out

    assert "state: RETIRED -> INACTIVE" in tried(1)
    told = tried(before - 2)
    assert f"adjustments removed: {before - 2} (queue:capped.test)\nadjustments restored: -\n" in told
    assert "queue:capped.test: queue_total_budget 5 -> " in told and "matches 1 queue\n" in told
    assert tried(before - 1).endswith("would return 3 URIs to 1 queue: capped.test\n")
    assert tried(before).endswith("would return 1 dead letter\n")
    cli("import", job, "http://capped.test/new", "--force")
    refused = cli("undo", job, before - 1, "--dry-run")
    assert (refused.code, "has changed since: 1 URI has come" in refused.err) == (1, True)
    assert "although changed since: 1 queue: capped.test: 1 URI has come" in tried(before - 1, "--force")
    shown = cli("undo", job, before, "--dry-run", "--discard")
    assert shown.code == 0 and shown.out.startswith("would discard ") and shown.out.endswith(" has kept\n")
    assert newest(job).id == before + 1, "only the import is in the audit"


def test_the_dry_run_of_the_undo_of_an_adjustment_tells_what_that_of_an_adjustment_does(
    tmp_path: Path, cli: Cli
) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings(queue_total_budget=2)) as f:
        f.schedule_many(f"http://{host}.test/{number}" for number in range(9) for host in "ab")
        f.adjust(match="queue:a.test", queue_total_budget=3)
        f.adjust(match="queue:a.test", queue_total_budget=50)
        for _ in range(6):
            f.finish(f.lease()[0])
        in_two_days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[(time.gmtime().tm_wday + 2) % 7]
        windows: dict[str, Any] = {"guards.windows": [f"{in_two_days} 02:00-05:00"]}
        f.adjust(match="queue:b.test", **windows)
    told = cli("undo", tmp_path, 2, "--dry-run").out
    assert "adjustments removed: 2 (queue:a.test)\nadjustments restored: 1 (queue:a.test)\n" in told
    assert "queue:a.test: queue_total_budget 50 -> 3\n" in told
    assert "would retire 1 queue: a.test\n" in told and "without the change: 3 of the URIs they hold now" in told
    again = cli("adjust", tmp_path, "--match", "queue:a.test", "--total-budget", 3, "--dry-run").out
    assert told.endswith(again.partition("\n")[2])
    assert "would be outside their crawl windows no more: 1 queue\n" in cli("undo", tmp_path, 3, "--dry-run").out


def test_what_deletions_have_kept_is_listed_and_discarded_by_age(job: Path, cli: Cli) -> None:
    assert json.loads(cli("removed", job, "--format", "json").out) == []
    cli("delete", job, "--queue", "*ped.test", "--who", "eve", "--reason", "a trap")
    cli("dead-letters", job, "--drop", "all")
    number = newest(job).id
    with Reader(job / "frontier") as reader:
        size = sum(entry.effect["kept"]["bytes"] for entry in reader.audit() if "kept" in entry.effect)
    rows = json.loads(cli("removed", job, "--format", "json").out)
    assert [(row["id"], row["command"], row["uris"], row["who"]) for row in rows] == [
        (number - 1, "delete", 3, "eve"),
        (number, "drop", 1, rows[1]["who"]),
    ]
    assert sum(row["bytes"] for row in rows) == size
    assert f"Kept for undo: {size} bytes" in cli("report", job).out
    assert f"{size:,} bytes are kept for `undo`" in cli("verify", job).err
    assert cli("removed", job, "--older-than", "1h", "--discard").out == "discarded 0 bytes of 0 commands\n"
    assert f"would discard {size:,} bytes of 2 commands" in cli("removed", job, "--discard", "--dry-run").err
    assert cli("removed", job, "--dry-run").code == 2 and newest(job).id == number
    assert cli("removed", job, "--discard", "--limit", "1").out.endswith("bytes of 1 command\n")
    assert (newest(job).command, newest(job).args["id"]) == ("discard", number - 1)
    (row,) = json.loads(cli("removed", job, "--discard", "--format", "json").out)
    assert (row["id"], newest(job).command, newest(job).args["id"]) == (number, "discard", number)
    assert cli("removed", job, "--discard").out.endswith("bytes of 0 commands\n")
    assert json.loads(cli("removed", job, "--format", "json").out) == []


def test_an_age_that_is_none_is_answered_with_what_one_is(job: Path, cli: Cli) -> None:
    for command in (("removed",), ("leases",)):
        answer = cli(*command, job, "--older-than", "soon")
        assert answer.code == 2 and "expected a duration" in answer.err and "15m" in answer.err
    answer = cli("audit", job, "--since", "soon")
    assert answer.code == 2 and "ISO 8601" in answer.err and "2h" in answer.err


def test_the_audit_has_the_command_line(job: Path, cli: Cli) -> None:
    cli("adjust", job, "--match", "queue:capped.test", "--total-budget", 5, "--reason", "a b")
    assert newest(job).line == f"budgetfrontier adjust {job} --match queue:capped.test --total-budget 5 --reason 'a b'"
    cli("delete", job, "--queue", "named.test")
    assert newest(job).line == f"budgetfrontier delete {job} --queue named.test"


def test_an_interrupted_deletion_says_that_the_rest_follows(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_disk(tmp_path, commit_operations=500) as f:
        f.schedule_many(pages("A", 2000))
    steps = iter(range(2))

    def step(*args: Any) -> bool:
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return deletion.step(*args)

    with monkeypatch.context() as patched:
        patched.setitem(operations.STEPWISE, "delete", operations.Stepwise(deletion.start, step))
        answer = cli("delete", tmp_path, "--queue", "a.test")
    assert answer.code == 130
    assert re.search(r"interrupted: delete by \S+ is in progress \(deleted [\d,]+", answer.err)
    assert f"Then `budgetfrontier audit {tmp_path}` has it" in answer.err
    left = "delete by .* is in progress .*, and no process goes on with it: the next crawl does, step by step while"
    for look in (["report"], ["queues"], ["audit"], ["delete", "--queue", "b*", "--dry-run"]):
        assert re.search(left, cli(look[0], tmp_path, *look[1:]).err), look
    shutil.copytree(tmp_path, tmp_path / "copy")
    woken = cli("wake", tmp_path, "a.test")
    assert woken.code == 0
    went_on = r"first went on with 1, delete by \S+: Deleted 2,000 .* `undo 1` takes that back"
    assert re.search(went_on, woken.err), woken.err
    with Reader(tmp_path / "frontier") as reader:
        assert reader.summary().queued == 0
        assert [entry.command for entry in reader.audit()] == ["delete", "wake"]
    line = "2026-11-20T10:00:00.000Z -5000 - http://new.test/ L - no-type #000 - - - -\n"
    (tmp_path / "crawl.log").write_text(line)
    others: tuple[list[Any], ...] = (
        ["import", "http://b.test/"],
        ["revive", "--status", "-5000", "--log", tmp_path / "crawl.log"],
    )
    for number, (command, *rest) in enumerate(others):
        copy = shutil.copytree(tmp_path / "copy", tmp_path / f"copy{number}")
        told = cli(command, copy, *rest).err
        assert re.search(went_on, told) and told.count("first went on with") == 1, told


def test_a_discard_says_what_it_went_on_with(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("abcdef", 1))
    assert cli("retire", tmp_path, "--match", "*").code == 0
    frontier = Frontier.open(tmp_path / "frontier")
    post(tmp_path / "frontier", "snooze", match="*", until=4e9)
    frontier.commit()
    assert in_progress(frontier)
    crash(frontier)
    told = cli("removed", tmp_path, "--discard")
    assert told.code == 0 and told.err.count("first went on with") == 1, told
    assert "first went on with 2, snooze by " in told.err, told


def test_a_dry_run_knows_the_same_undo_in_progress(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("abcdef", 1))
    assert cli("retire", tmp_path, "--match", "*").code == 0
    frontier = Frontier.open(tmp_path / "frontier")
    post(tmp_path / "frontier", "undo", id=1)
    frontier.commit()
    assert in_progress(frontier)
    crash(frontier)
    dry = cli("undo", tmp_path, 1, "--dry-run")
    assert dry.code == 1 and "1, retire, is being undone: that is in progress" in dry.err, dry
    told = cli("undo", tmp_path, 1)
    assert told.code == 1 and "1, retire, is undone already" in told.err
    assert re.search(r"first went on with 2, undo by \S+: Undid retire of entry 1", told.err), told
    assert told.err.count("first went on with") == 1, told


def test_an_import_of_dead_letters_is_undone_and_its_undo_too(job: Path, cli: Cli) -> None:
    args = {"uris": ["http://a.test/1", "http://a.test/2"], "reasons": ["gone", "gone"]}
    number = common.steer(argparse.Namespace(job=job, who="bob", reason=""), "bury", args).id
    assert "would drop 2 dead letters, and what is known of their URLs\n" in cli("undo", job, number, "--dry-run").out
    answer = cli("undo", job, number)
    assert answer.out == f"undone {number}, bury: dropped 2 dead letters, and what was known of their URLs\n"
    assert f"to take it back: budgetfrontier undo {job} {number + 1} " in answer.err
    assert [row["command"] for row in json.loads(cli("removed", job, "--format", "json").out)][-1] == "undo"
    assert "returned 2 dead letters" in cli("undo", job, number + 1).out


def test_adjust_names_the_queues_that_a_precedence_floor_holds(tmp_path: Path, cli: Cli) -> None:
    settings = Settings.from_dict(
        {"frontier": {"precedence_floor": 5}, "overrides": [{"match": "host:low.test", "set": {"precedence": 9}}]}
    )
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.schedule_many(["http://low.test/", "http://a.test/"])
    plan = cli("adjust", tmp_path, "--match", "host:low.test", "--set", "precedence=3", "--dry-run").out.splitlines()
    assert plan[2:6] == [
        "would revive 0 queues",
        "would retire 0 queues",
        "would be INELIGIBLE no more: 1 queue: low.test",
        "  would fetch 1 of the URIs they hold now and spend 1, without maximum once more come",
    ]
    plan = cli("adjust", tmp_path, "--match", "*", "--set", "precedence=60", "--dry-run").out.splitlines()
    assert "would become INELIGIBLE, at the precedence floor: 1 queue: a.test" in plan
    done = cli("adjust", tmp_path, "--match", "*", "--set", "precedence=60").out.splitlines()
    assert done[-1] == "2 queues that wait are compared with the precedence floor"


def test_a_crawl_that_is_resumed_with_nothing_left_stays_at_its_finish(tmp_path: Path, cli: Cli) -> None:
    settings = Settings.from_dict({"frontier": {"precedence_floor": 3, "pause_at_finish": True}})
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.schedule("http://a.test/")
        assert f.state is CrawlState.PAUSED
    after = {"state": "PAUSED", "pause_reason": "finish"}
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        assert state_preview.of_crawl(view, "resume", {})["after"] == after
    answer = cli("resume", tmp_path)
    assert answer.out == "PAUSED -> PAUSED\n" and "still at its finish" in answer.err
    with Reader(tmp_path / "frontier") as reader:
        assert reader.audit(limit=1)[0].effect["after"] == after


def test_a_crawl_without_a_pause_at_its_finish_is_resumed_to_its_end(tmp_path: Path, cli: Cli) -> None:
    settings = Settings.from_dict({"frontier": {"precedence_floor": 3}})
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.pause()
        f.schedule("http://a.test/")
    assert cli("resume", tmp_path).out == "PAUSED -> FINISHED\n"


def test_a_dry_run_says_that_nothing_is_left_to_crawl(tmp_path: Path, cli: Cli) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("abc", 2))
        f.retire("c.test")
    ends = "no other queue has a URI to hand out: the crawl ends then, unless new URIs come\n"
    until = "nothing is left to lease until 2096-10-02T07:06:40Z, unless new URIs come\n"
    commands: list[tuple[str, list[Any]]] = [
        (ends, ["retire", tmp_path, "--match", "*"]),
        (ends, ["delete", tmp_path, "--queue", "*"]),
        (ends, ["delete", tmp_path, "--queue", "[ab]*"]),
        (ends, ["adjust", tmp_path, "--total-budget", 0, "--set", "retire_when=reached"]),
        (until, ["snooze", tmp_path, "--match", "*", "--until", "4000000000"]),
        ("", ["retire", tmp_path, "--match", "queue:[ac]*"]),
        ("", ["retire", tmp_path, "a.test"]),
        ("", ["delete", tmp_path, "--pattern", "/1$"]),
        ("", ["adjust", tmp_path, "--queues", "a.test", "--total-budget", 0, "--set", "retire_when=reached"]),
        ("", ["wake", tmp_path, "--match", "*"]),
        ("", ["snooze", tmp_path, "a.test", "--until", "4000000000"]),
    ]
    for told, command in commands:
        answer = cli(*command, "--dry-run")
        assert answer.code == 0 and answer.out.endswith(told or "\n"), (command, answer)
        assert ("unless new URIs come" in answer.out) == bool(told), (command, answer)
    assert cli("retire", tmp_path, "a.test").code == 0
    assert cli("retire", tmp_path, "b.test", "--dry-run").out.endswith(ends)
    with on_disk(tmp_path) as f:
        assert len(f.lease(1)) == 1
        f.commit()
        out = "the crawl ends once 1 URI being fetched is finished, unless new URIs come\n"
        assert cli("delete", tmp_path, "--queue", "*", "--dry-run").out.endswith(out)
        assert cli("retire", tmp_path, "b.test", "--dry-run").out.endswith(out)
        shutil.copytree(tmp_path, killed := tmp_path / "killed")
    assert cli("retire", killed, "b.test", "--dry-run").out.endswith(ends), "its next start takes the lease back"
    assert "the crawl ends" not in cli("delete", killed, "--queue", "*", "--dry-run").out, "and crawls that URI"


def test_all_commands_that_change_a_crawl_are_among_those_of_the_tests() -> None:
    assert STEERING.keys() == {name for name, parser in parsers().items() if has_option(parser, "--reason")}


@pytest.mark.parametrize(
    ("command", "dry_run"),
    [(name, dry) for name in STEERING for dry in (False, True) if not dry or has_option(parsers()[name], "--dry-run")],
)
def test_a_command_on_a_terminated_crawl_and_its_dry_run_say_that_nothing_is_fetched(
    tmp_path: Path, cli: Cli, command: str, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as f:
        f.schedule_many(["https://b.test/1", "https://a.test/1"])
        f.finish(f.lease(1)[0], Outcome.DEAD, reason="gone")
        f.delete(queue="a.test")
        f.terminate()
    (tmp_path / "urls").write_text("https://new.test/\n")
    named = {"FILE": str(tmp_path / "urls"), "AUDIT_ID": "1"}
    words = [named.get(word, word) for word in STEERING[command]]
    suspect = Suspect("b.test", QueueState.READY, 1.0, 1, 1, 1, [Evidence("links", 1.0, "finds many")], [], 3)
    monkeypatch.setattr(trap_holding, "_suspect", lambda args, operator: suspect)
    answer = cli(command, tmp_path, *words, *["--dry-run"] * dry_run)
    assert (answer.out + answer.err).count("crawl was terminated, for good: ") == 1, answer
    with Reader(tmp_path / "frontier") as reader:
        assert len(reader.audit()) == 2 or not dry_run


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_wake_of_many_queues_says_that_their_crawl_windows_stay_closed(
    tmp_path: Path, cli: Cli, everywhere: bool
) -> None:
    day = time.strftime("%a", time.gmtime(time.time() + 48 * 3600)).lower()
    windows = {"guards": {"windows": [f"{day} 02:00-05:00"]}}
    settings = {"frontier": windows} if everywhere else {"overrides": [{"match": "queue:a.test", "set": windows}]}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as f:
        f.schedule_many(pages("abc", 2))
        f.lease(9)
    for option in ("--dry-run", "--reason=now"):
        answer = cli("wake", tmp_path, "--match", "*", option)
        assert answer.code == 0
        assert ("All crawl windows are closed (guards.windows): the first opens in" in answer.err) is everywhere
        told = "1 of them is outside its crawl windows, and waits again from the next turn on"
        assert (told in answer.out) is not everywhere
    assert (told in cli("audit", tmp_path).out) is not everywhere


def test_an_undo_of_crawl_windows_says_what_it_opens(tmp_path: Path, cli: Cli) -> None:
    day = time.strftime("%a", time.gmtime(time.time() + 48 * 3600)).lower()
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule_many(pages("abc", 2))
    closed = cli("adjust", tmp_path, "--set", f'guards.windows=["{day} 02:00-05:00"]')
    assert closed.code == 0
    number = newest(tmp_path).id
    assert "3 queues outside their crawl windows" in cli("audit", tmp_path).out
    would = cli("undo", tmp_path, number, "--dry-run")
    assert "would be outside their crawl windows no more: 3 queues\n" in would.out
    assert "\noutside their crawl windows no more: 3 queues\n" in cli("undo", tmp_path, number).out
    assert "3 queues outside their crawl windows no more" in cli("audit", tmp_path).out


@pytest.mark.parametrize("command", ["undo 1 --dry-run", "undo 1", "resume"])
@pytest.mark.parametrize("for_disk", [True, False])
def test_a_crawl_that_goes_on_with_little_room_is_said_to_be_paused_again(
    tmp_path: Path, cli: Cli, command: str, for_disk: bool
) -> None:
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule_many(pages("a", 2))
        f.pause(reason=f"{'disk: ' if for_disk else ''}1 B free in /a", who="guard")
    op, *options = command.split()
    answer = cli(op, tmp_path, *options)
    assert answer.code == 0 and "PAUSED -> RUNNING" in answer.out
    assert ("the guard pauses it again at its next look" in answer.err) is for_disk


def test_the_pace_of_queues_has_units_wherever_it_is_told(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as f:
        f.schedule_many(pages("ab", 2))
    given = ("set-queue", tmp_path, "--match", "*", "--interval", "2s", "--limit", "1500")
    paces = "interval 2s, was of the settings; limit of completed URLs 1,500, was none"
    told = f"2 of 2 queues would be given another pace ({paces}): 2 INACTIVE"
    assert told in cli(*given, "--dry-run").out
    assert told.replace("would be", "were") in cli(*given).out
    assert told.replace("would be", "were") in cli("audit", tmp_path).out
    many = newest(tmp_path).id
    assert "a.test: interval 2s -> 2h" in cli("set-queue", tmp_path, "a.test", "--interval", "2h").out
    again = cli("set-queue", tmp_path, "--match", "*", "--interval", "2h")
    assert "1 of 2 queues was given another pace (interval 2h, was 2h for 1 queue and 2s for 1 queue)" in again.out
    assert "would restore 1 queue: b.test (interval 2s)" in cli("undo", tmp_path, newest(tmp_path).id, "--dry-run").out
    assert "restored 1 queue (interval 2s)" in cli("undo", tmp_path, newest(tmp_path).id).out
    assert "left: a.test: its interval is 2h, and was 2s" in cli("undo", tmp_path, many, "--dry-run").err
    undone = "restored 1 queue (interval of the settings; limit of completed URLs none); 1 queue changed since"
    assert f"undone {many}, set-queue: {undone}" in cli("undo", tmp_path, many).out
    cli("set-queue", tmp_path, "b.test", "--interval", "1h")
    would = cli("undo", tmp_path, newest(tmp_path).id, "--dry-run").out
    assert "interval: 1h -> of the settings\n" in would


def test_people_are_told_that_there_is_no_limit_and_programs_its_number(stopped: Path, cli: Cli) -> None:
    """In dry runs, results, the audit, undo, and of one queue."""
    given = ("adjust", stopped, "--match", "queue:snoozed.test", "--total-budget")
    limited = ("--set", "max_queue_size=5", "--set", "revisit.after=1d")
    told = "snoozed.test: max_queue_size no limit -> 5, revisit.after never -> 1d, queue_total_budget no limit -> 3\n"
    assert told in cli(*given, "3", *limited, "--dry-run").out
    assert told in cli(*given, "3", *limited, "--reason", "a trap").out
    number = newest(stopped).id
    assert "queue_total_budget 3 -> no limit\n" in cli(*given, "-1", "--dry-run").out
    assert "queue_total_budget to 3 (before: no limit)" in cli("audit", stopped).out
    assert "over the default: no limit" in cli("explain", stopped, "snoozed.test").out
    cli("undo", stopped, number)
    cli(*given, "-1")
    shown = [
        cli("audit", stopped),
        cli("explain", stopped, "snoozed.test"),
        cli("queue", stopped, "snoozed.test"),
        cli("undo", stopped, newest(stopped).id, "--dry-run"),
    ]
    for said in shown:
        assert not re.search(r"(?<!--total-budget) -1\b", said.out), "but for the command as it was given"
    assert "total_budget:             no limit\n" in shown[2].out
    assert "queue_total_budget to no limit (before: no limit)" in shown[0].out
    as_json = json.loads(cli("queue", stopped, "snoozed.test", "--format", "json").out)
    assert as_json["total_budget"] == -1 and newest(stopped).args["set"] == {"queue_total_budget": -1}


def test_a_crawl_paused_at_its_finish_is_said_to_end_only_if_nothing_waits(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"pause_at_finish": True}})) as f:
        f.schedule_many(["http://a.test/1", "http://a.test/2"])
    told = "the crawl is paused at its finish, and `crawl` ends then"
    retired = cli("retire", tmp_path, "--match", "*")
    assert told in retired.err
    number = audited(tmp_path)[-1].id
    undone = cli("undo", tmp_path, number).err
    assert told not in undone and "its next start, or `budgetfrontier resume`, goes on with what waits" in undone
