"""The arguments and effects of commands as pages show them."""

from __future__ import annotations

from budgetfrontier.console.told import brief, changes, others


def test_entries_of_the_audit_are_told_by_what_they_changed() -> None:
    effect = {
        "before": {"state": "READY", "block": 0, "queued": 3},
        "after": {"state": "RETIRED", "block": 6e4, "queued": 3},
    }
    assert brief(effect) == "state READY → RETIRED, block - → 1970-01-01T16:40:00Z"
    assert brief({"match": "*", "set": {"precedence": 1}, "ids": list(range(9)), "groups": []}) == (
        "match *, set precedence=1, ids (9)"
    )
    groups = [{"before": {"precedence": 3}, "after": {"precedence": 1}, "queues": 2}]
    assert brief({"groups": groups, "ids": [1, 2], "rest": 6e4}) == (
        "groups (1), ids [1, 2], rest 1970-01-01T16:40:00Z"
    )
    assert brief({}) == ""


def test_what_was_before_and_after_is_shown_beside_each_other() -> None:
    effect = {
        "before": {"state": "READY", "wake_time": 0.0, "by_name": False},
        "after": {"state": "SNOOZED", "wake_time": 1795457992.165703, "by_name": False},
        "queue": "a.test",
    }
    assert changes(effect) == [
        ("state", "READY", "SNOOZED"),
        ("wake_time", "-", "2026-11-23T18:19:52Z"),
        ("by_name", "no", "no"),
    ]
    assert others(effect) == {"queue": "a.test"}
    assert changes({"before": {}, "dead_letters": 3}) == [] and others({"dead_letters": 3}) == {"dead_letters": 3}
