"""Adjustments: what they do, and what a dry run says that they would, told from the engine and from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Reader, SettingsError
from budgetfrontier.engine.commands import adjustment
from budgetfrontier.engine.commands.adjustment import promise
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.preview import preview
from budgetfrontier.engine.commands.survey import appended, survey
from budgetfrontier.errors import FrontierError, PolicyError
from budgetfrontier.settings.overrides import Override, validate_override
from tests.support import START, crawl, memory, on_disk, pages, record, state

URL = "https://c.test/"


def test_a_cost_policy_that_cannot_be_imported_is_refused(f: Frontier) -> None:
    with pytest.raises(PolicyError, match="cannot be imported"):
        f.adjust(cost_policy="no.such_module:policy")
    assert f.schedule(URL) is Admission.ADDED


def test_a_changed_total_counts_at_once_and_a_changed_replenish_amount_later() -> None:
    with memory(balance_replenish_amount=4) as f:
        f.schedule_many(pages("A", 20))
        assert crawl(f, 1) == "A"
        f.adjust(balance_replenish_amount=10)
        assert record(f, "A").balance == 3
        assert crawl(f, 3) == "AAA"
        assert crawl(f, 1) == "A"
        assert record(f, "A").balance == 9
        f.adjust(queue_total_budget=4)
        assert crawl(f) == ""
        assert state(f, "A") == "RETIRED"


@pytest.mark.parametrize("wrong", [{"queue_total_budgte": 1}, {"queue_total_budget": "much"}, {"match": "what:ever"}])
def test_a_wrong_adjustment_changes_nothing(wrong: dict[str, Any]) -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 4))
        assert crawl(f) == "A"
        with pytest.raises(SettingsError):
            f.adjust(**{"queue_total_budget": 9, **wrong})
        assert state(f, "A") == "RETIRED"
        f.check()


def test_adjustments_that_are_set_again_do_not_pile_up(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f") as frontier:
        for budget in range(50):
            frontier.adjust(match="host:a.test", queue_total_budget=budget)
            frontier.adjust(queue_total_budget=budget)
        assert len(frontier.audit()) == 100
    with Reader(tmp_path / "f") as reader:
        assert [(one.match, one.set) for one in reader.adjustments] == [
            ("host:a.test", {"queue_total_budget": 49}),
            ("*", {"queue_total_budget": 49}),
        ]


def test_the_command_line_foresees_what_the_engine_does(tmp_path: Path) -> None:
    overrides = [{"match": "queue:b.test", "set": {"queue_total_budget": 1}}]
    with on_disk(tmp_path, queue_total_budget=2, overrides=overrides, concurrency=2) as f:
        f.schedule_many(pages("ABCD", 5))
        f.schedule_many(pages("E", 1))
        assert crawl(f) == "AAABBCCCDDDE"
        f.retire("c.test")
        f.schedule_many(pages("F", 3))
        f.lease(1)
        f.commit()
        for match, changes in (
            ("*", {"queue_total_budget": 4}),
            ("queue:a.test", {"queue_total_budget": 100}),
            ("host:*.test", {"balance_replenish_amount": 0}),
            ("regex:/[34]$", {"retire_when": "reached", "queue_total_budget": 4}),
        ):
            override = validate_override(match, changes)
            plan = f.adjust(match=match, dry_run=True, **changes)
            with Reader(tmp_path / "frontier") as reader, reader.view() as view:
                told = preview(view, appended(view, override), now=START)
            del told["held_back"], told["held_until"]
            assert told == {name: getattr(plan, name) for name in told}
        assert f.audit(limit=1)[0].command == "retire"


@pytest.mark.parametrize(
    ("match", "changes", "retired", "revived", "spend"),
    [
        ("*", {"queue_total_budget": 4}, "", "AB", 4),  # each has spent 3 and holds 2 URIs
        ("queue:a.test", {"queue_total_budget": 100}, "", "A", 2),
        ("queue:a.test", {"queue_total_budget": 3}, "", "A", 1),
        ("queue:a.test", {"queue_total_budget": 3, "retire_when": "reached"}, "", "", 0),
        ("*", {"balance_replenish_amount": 0, "queue_total_budget": 9}, "D", "", 0),
        ("domain:d.test", {"queue_total_budget": 0, "retire_when": "reached"}, "D", "", 0),
    ],
)
def test_what_is_foreseen_happens(match: str, changes: dict[str, Any], retired: str, revived: str, spend: int) -> None:
    with memory(queue_total_budget=2) as f:
        f.schedule_many(pages("AB", 5))
        f.schedule_many(pages("C", 5))
        assert crawl(f) == "AAABBBCCC"
        f.retire("c.test")
        f.schedule_many(pages("D", 2))
        before = {host: state(f, host) for host in "ABCD"}
        assert before == dict(zip("ABCD", ["RETIRED", "RETIRED", "RETIRED", "INACTIVE"], strict=True))
        plan = f.adjust(match=match, dry_run=True, **changes)
        named = [[f"{host.lower()}.test" for host in hosts] for hosts in (retired, revived)]
        assert [plan.retired, plan.revived] == named
        assert (plan.retired_count, plan.revived_count) == (len(retired), len(revived))
        f.adjust(match=match, **changes)
        done = crawl(f)
        assert {host for host in "ABC" if host in done} == set(revived)
        assert ("D" in done) == (not retired)
        assert plan.spend == spend == sum(host in "ABC" for host in done)


@pytest.mark.parametrize(
    ("match", "count"),
    [
        ("*", 4),
        ("queue:later.test", 1),
        ("queue:l*", 2),
        ("domain:later.test", 1),
        ("host:*.test", 3),
        ("surt:(test,later", 1),
        ("regex:/tomorrow$", 2),
        ("domain:nowhere.test", 0),
    ],
)
def test_queues_that_never_held_a_uri_are_matched(match: str, count: int) -> None:
    with memory() as f:
        f.schedule("https://a.test/")
        f.schedule(CrawlUri("https://b.test/tomorrow", not_before=START + 86_400))
        f.schedule(CrawlUri("https://later.test/tomorrow", not_before=START + 86_400))
        f.schedule(CrawlUri("https://somewhere.example/", queue="list", not_before=START + 60))
        assert f.adjust(match=match, queue_total_budget=5, dry_run=True).matched == count


def test_an_adjustment_shows_the_values_of_a_queue_that_no_commit_has_seen() -> None:
    with memory(overrides=[{"match": "regex:/x$", "set": {"queue_total_budget": 3}}]) as f:
        f.schedule("https://a.test/x")
        assert f.adjust(match="queue:a.test", queue_total_budget=5).before == {"queue_total_budget": 3}
        f.schedule("https://b.test/x")
        told = f.adjust(match="host:b.test", queue_total_budget=5, dry_run=True)
        assert (told.before, told.after) == ({"queue_total_budget": 3}, {"queue_total_budget": 5})


def test_a_dry_run_changes_nothing() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 4))
        assert crawl(f) == "AABB"
        told = f.adjust(match="queue:a.test", queue_total_budget=5, dry_run=True)
        assert "a.test" in told.revived
        assert [state(f, host) for host in "AB"] == ["RETIRED", "RETIRED"]


def test_audit_entries_are_numbered_and_a_dry_run_says_what_it_matches() -> None:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        assert frontier.adjust(match="domain:a.test", queue_total_budget=0, dry_run=True).matched == 1
        frontier.retire("a.test")
        assert frontier.adjust(match="*", queue_total_budget=5).id == 2
        assert [entry.id for entry in frontier.audit()] == [1, 2]


def listed(path: Path) -> list[tuple[int, str]]:
    """The ids and matches of the adjustments in force, as a reader sees them."""
    with Reader(path) as reader:
        return [(one.id, one.match) for one in reader.adjustments]


def test_an_adjustment_has_the_id_of_its_audit_entry_and_can_be_withdrawn(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 6))
        assert crawl(f) == "AABB"
        first = f.adjust(match="queue:a.test", queue_total_budget=3)
        f.adjust(precedence=2)
        assert crawl(f) == "AA"
        f.withdraw(first.id, reason="enough")
        assert record(f, "A").total_budget == 1
        assert crawl(f) == ""
        with pytest.raises(FrontierError, match="adjustment 1 is not in force"):
            f.withdraw(first.id)
        f.check()
    assert listed(tmp_path / "frontier") == [(2, "*")]


def test_a_withdrawal_changes_precedences() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 1))
        number = f.adjust(match="queue:b.test", precedence=1).id
        assert record(f, "B").precedence == 1
        f.withdraw(number)
        assert crawl(f) == "AB"


def test_values_that_another_command_has_changed_are_those_that_the_engine_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(f: Frontier, override: Override) -> dict[str, Any]:
        view = f._guard.kernel.tables.flushed()
        return msgspec.structs.asdict(survey(view, appended(view, override)))

    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("ABC", 2))
        given = [Override("*", {"queue_total_budget": total}) for total in (5, 6, 7)]
        surveys = [counted(f, one) for one in given]  # three people at once: each counted before any was applied
        for most in (adjustment.COUNTED, 2):
            monkeypatch.setattr(adjustment, "COUNTED", most)
            for override, found in zip(given, surveys, strict=True):
                f.internals.apply(Command("adjust", {"match": "*", "set": override.set, "survey": found}, "me", ""))
        effects = [entry.effect for entry in f.audit()]
    assert [effect["before"]["queue_total_budget"] for effect in effects] == [1, 5, 6, 7, 5, 6]
    assert [effect["after"]["queue_total_budget"] for effect in effects] == [5, 6, 7] * 2
    assert [(effect["matched"], effect["changed"]) for effect in effects] == [(3, 3)] * 3 + [(3, None)] * 3
    assert [effect["ungrouped"] for effect in effects] == [0] * 3 + [3] * 3


def test_a_survey_holds_as_long_as_the_settings_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjustment, "COUNTED", 0)
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("ABC", 2))
        f.adjust(match="host:a.test", queue_total_budget=5)
        view = f._guard.kernel.tables.flushed()
        found = survey(view, appended(view, Override("*", {"queue_total_budget": 5})))
        args = {"match": "*", "set": {"queue_total_budget": 5}, "survey": msgspec.structs.asdict(found)}
        entry = f.internals.apply(Command("adjust", args, "me", ""))
    assert [(one["before"], one["queues"]) for one in entry.effect["groups"]] == [
        ({"queue_total_budget": 1}, 2),
        ({"queue_total_budget": 5}, 1),
    ]
    assert (entry.effect["matched"], entry.effect["changed"]) == (3, 2)
    assert "revision" not in entry.effect and "survey" not in entry.args


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_a_dry_run_has_promised_stands_in_the_audit(withdrawn: bool) -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("AB", 3))
        number = f.adjust(match="host:a.test", queue_total_budget=0).id
        crawl(f)
        args = {"id": number} if withdrawn else {"match": "host:a.test", "set": {"queue_total_budget": 9}}
        shown = msgspec.structs.asdict(f.adjust(match="host:a.test", queue_total_budget=9, dry_run=True))
        op = "withdraw" if withdrawn else "adjust"
        entry = f.internals.apply(Command(op, args | {"promised": promise(shown)}, "me", ""))
        refused = f.internals.apply(Command(op, args | {"promised": {"uris": "many"}}, "me", ""))
    promised = entry.effect["promised"]
    assert [promised[name] for name in ("revived_count", "uris", "spend", "ceiling")] == [1, 2, 2, 9]
    assert "revived" not in promised and "promised" not in entry.args
    assert entry.effect["reconsidered_count"] == 2  # every retired queue is reconsidered
    assert refused.error is not None and "uris" in refused.error
