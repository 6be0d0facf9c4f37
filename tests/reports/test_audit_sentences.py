"""The sentences of the audit: one for each command, without the syntax of programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.operations import OPERATIONS, STEPWISE
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.storage.records import AuditEntry
from tests.support import memory, on_disk, pages, post, record

SYNTAX = re.compile(r"[{}\[\]]|None|True|False|[a-z]=")
GIVEN: list[tuple[str, dict[str, Any], str]] = [
    ("adjust", {"match": "host:a.test", "set": {"queue_total_budget": 50, "precedence": 1}},
     "Set queue_total_budget to 50 (before: no limit), precedence to 1 (before: 3) for host:a.test; 1 queue matched, "
     "1 changed."),
    ("withdraw", {"id": 1}, "Withdrew adjustment 1 (queue_total_budget 50, precedence 1 for host:a.test); "
     "1 queue matched, 1 changed."),
    ("undo", {"id": 2}, "Undid withdraw of entry 2: restored adjustment 1."),
    ("retire", {"queue": "a.test"}, "Retired queue a.test: state READY -> RETIRED."),
    ("unretire", {"queue": "a.test"}, "Took out of retirement queue a.test: state RETIRED -> INACTIVE."),
    ("snooze", {"queue": "a.test", "until": 4e9},
     "Blocked queue a.test until 2096-10-02T07:06:40Z."),
    ("wake", {"queue": "a.test"},
     "Ended the waits of queue a.test: wake time 2096-10-02T07:06:40Z -> 1970-01-12T13:46:40Z."),
    ("wake", {"queue": "a.test"}, "Ended the waits of queue a.test: nothing changed."),
    ("set_queue", {"queue": "a.test", "interval": 90.0, "max_completed": 3},
     "Set the pace of queue a.test: interval of the settings -> 1m30s, limit of completed URLs none -> 3."),
    ("snooze", {"match": "*", "states": ["READY"], "until": 4e9},
     "1 of 1 queue in state READY was blocked until 2096-10-02T07:06:40Z: 1 READY -> SNOOZED, with 2 URIs."),
    ("undo", {"id": 10}, "Undid snooze of entry 10: restored 1 queue."),
    ("pause", {"reason": "operator"},
     "Paused the crawl: state RUNNING -> PAUSED, pause reason none -> operator."),
    ("resume", {}, "Resumed the crawl: state PAUSED -> RUNNING, pause reason operator -> none."),
    ("schedule", {"uris": ["https://a.test/0", "http://a.test/new", "no URL"]},
     "Scheduled 3 URIs: 1 added, 1 known already, 1 refused as invalid (scheme: 1)."),
    ("mark_seen", {"uris": ["http://c.test/"]}, "Marked 1 URL as seen: 1 added."),
    ("bury", {"uris": ["http://d.test/"], "reasons": ["gone"]}, "Imported 1 dead letter: 1 added."),
    ("undo", {"id": 16}, "Undid bury of entry 16: dropped 1 dead letter, and what was known of their URLs."),
    ("delete", {"queue": "b.test", "pattern": "/0$"},
     "Deleted 1 URI from 1 queue (queue b.test, pattern /0$)."),
    ("undo", {"id": 18}, "Undid delete of entry 18: returned 1 URI to 1 queue."),
    ("bury", {"uris": ["http://d.test/", "http://d.test/2"], "reasons": ["gone", "gone"]},
     "Imported 2 dead letters: 2 added."),
    ("replay", {"queue": "d.test", "ids": [8]}, "Replayed 0 dead letters (queue d.test, of 1 id)."),
    ("drop", {"ids": None}, "Dropped 2 dead letters."),
    ("discard", {"id": 22}, "Removed for good what entry 22 had kept for undo: 127 B of a drop."),
    ("forget", {"uris": ["http://c.test/", "http://a.test/0", "http://e.test/"]},
     "Forgot 1 URL; 2 were not known."),
    ("forget", {"match": "host:c.test"}, "Forgot 0 URLs (match host:c.test)."),
    ("undo", {"id": 24}, "Undid forget of entry 24: 1 URL known again."),
    ("retire", {"queue": "nobody.test"}, "Refused: there is no queue 'nobody.test'; `queues` lists them"),
    ("terminate", {}, "Terminated the crawl: state RUNNING -> TERMINATED."),
]  # fmt: skip


def test_each_command_has_its_sentence(tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=True, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        for command, args, _ in GIVEN:
            post(tmp_path / "frontier", command, **args)
            for _ in range(4):
                f.commit()
        entries = [entry for entry in reversed(f.audit()) if entry.command != "settings"]
    found = [sentence(entry) for entry in sorted(entries, key=lambda entry: entry.id)]
    assert found == [wanted for _, _, wanted in GIVEN]
    assert not [text for text in found if SYNTAX.search(text) or len(text) > 400]
    assert {command for command, _, _ in GIVEN} == {*OPERATIONS, *STEPWISE}


def test_a_queue_that_was_retired_already_is_said_to_be_retired_by_name_since() -> None:
    with memory(queue_total_budget=0, retire_when="reached") as f:
        f.schedule_many(pages("A", 1))
        assert not f.lease()
        f.retire("a.test")
        number = f.audit()[-1].id
        f.internals.apply(Command("undo", {"id": number}, "bob", ""))
        by_name, undone = map(sentence, f.audit()[-2:])
    assert by_name == "Retired queue a.test: retired by name now, so that no change of settings revives it."
    assert undone.endswith("a.test: retired by name no more, so that a change of settings may revive it.")


def test_a_forced_undo_does_not_say_that_anything_has_changed() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        f.retire("a.test")
        f.undo(f.audit()[-1].id, force=True)
        told = sentence(f.audit()[-1])
    assert told == "Undid retire of entry 1, whatever has changed since: a.test: state RETIRED -> INACTIVE."


def test_the_undo_of_a_pace_names_the_command_as_the_command_line_does() -> None:
    with memory(keep_urls=True) as f:
        f.schedule_many(pages("A", 1))
        f.internals.apply(Command("set_queue", {"match": "*", "interval": 90.0}, "bob", ""))
        given = f.audit(limit=1)[0].id
        f.undo(given)
        assert sentence(f.audit(limit=1)[0]).startswith("Undid set-queue of entry ")
        with pytest.raises(FrontierError, match=r"\d, set-queue, is undone already"):
            f.undo(given)


def test_what_a_dry_run_has_promised_is_told_beside_what_was_counted() -> None:
    spend = {"uris": 1, "spend": 2, "ceiling": None}
    promised = {
        "as_of": 1e9, "matched": 3, "revived_count": 2, "retired_count": 0, **spend,
        "others": {"queues": 1, "before": spend, "after": spend | {"spend": 1_000}},
    }  # fmt: skip
    effect = {"matched": 4, "changed": 4, "reconsidered_count": 3, "promised": promised}
    entry = AuditEntry(1, "adjust", {"match": "*", "set": {"queue_total_budget": 9}}, "bob", 1.0, "", effect)
    assert sentence(entry) == (
        "Set queue_total_budget to 9 for *; 4 queues matched, 4 changed; 3 retired queues reconsidered. A dry run as "
        "of 2001-09-09T01:46:40Z promised: 3 queues matched; 2 queues revived, for a spend of 2 on 1 URI; 0 queues "
        "retired; another budget for 1 queue not retired then, a spend of 1,000 on 1 URI instead of a spend of "
        "2 on 1 URI."
    )


@pytest.mark.parametrize(
    ("budgeted", "told"),
    [
        ("ab", "2 RETIRED -> INACTIVE, with 4 URIs; all of them are over a budget or quota still, and retire again"),
        ("a", "2 RETIRED -> INACTIVE, with 4 URIs; 1 is over a budget or quota still, and retires again"),
    ],
)
def test_queues_that_do_not_stay_out_of_retirement_are_told(budgeted: str, told: str) -> None:
    overrides = [{"match": f"queue:{one}.test", "set": {"balance_replenish_amount": 0}} for one in budgeted]
    with memory(overrides=overrides) as f:
        f.schedule_many(pages("ab", 2))
        for op in "retire", "unretire":
            f.internals.apply(Command(op, {"match": "*"}, "bob", ""))
        assert f"{told} at the next turn, with no URI tried." in sentence(f.audit(limit=1)[0])
        f.retire("a.test")
        f.unretire("a.test")
        assert sentence(f.audit(limit=1)[0]) == (
            "Took out of retirement queue a.test: state RETIRED -> INACTIVE; it is over a budget or quota still, and "
            "retires again at the next turn, with no URI tried."
        )
        f.lease(4)
        assert record(f, "a").state == "RETIRED"


def test_other_settings_at_an_opening_have_their_sentence(tmp_path: Path) -> None:
    for budget in (3, 5):
        with on_disk(tmp_path, queue_total_budget=budget) as f:
            entries = f.audit()
    assert [sentence(entry) for entry in entries] == ["Opened with other settings: frontier.queue_total_budget 3 -> 5."]


@pytest.mark.parametrize("command", [*OPERATIONS, *STEPWISE])
def test_what_has_ended_before_its_end_says_why(command: str) -> None:
    args = {"match": "*", "set": {}, "id": 1, "queue": "a.test", "until": 1.0, "uris": 2}
    entry = AuditEntry(1, command, args, "bob", 1.0, "", {"added": 1}, error="the disk\nis full")
    assert sentence(entry).endswith(" It failed before its end: the disk\\nis full")
