"""The arguments and effects of commands as pages show them."""

from __future__ import annotations

from budgetfrontier.reports.effect_text import as_told, changes, others


def test_values_are_told_by_their_names() -> None:
    assert as_told("wake_time", 6e4) == "1970-01-01T16:40:00Z" and as_told("block", 0) == "-"
    assert as_told("set", {"precedence": 1}) == "precedence=1"
    assert as_told("ids", [1, 2]) == "1, 2" and as_told("ids", list(range(22))).endswith("18, 19, and 2 more")


def test_what_was_before_and_after_is_shown_beside_each_other() -> None:
    effect = {
        "before": {"state": "READY", "wake_time": 0.0, "by_name": False},
        "after": {"state": "SNOOZED", "wake_time": 1795457992.165703, "by_name": False},
        "queue": "a.test",
    }
    assert changes(effect) == [
        ("state", "READY", "SNOOZED"),
        ("wake time", "-", "2026-11-23T18:19:52Z"),
        ("retired by an operator", "no", "no"),
    ]
    assert others(effect) == {"queue": "a.test"}
    assert changes({"before": {}, "dead_letters": 3}) == [] and others({"dead_letters": 3}) == {"dead_letters": 3}
