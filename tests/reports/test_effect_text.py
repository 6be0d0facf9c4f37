"""The arguments and effects of commands as pages show them."""

from __future__ import annotations

from budgetfrontier.reports.effect_text import as_told, changes, others


def test_values_are_told_by_their_names() -> None:
    assert as_told("wake_time", 6e4) == "1970-01-01T16:40:00Z" and as_told("block", 0) == "-"
    assert as_told("set", {"precedence": 1}) == "precedence=1"
    assert as_told("ids", [1, 2]) == "1, 2" and as_told("ids", list(range(22))).endswith("18, 19, and 2 more")


def test_settings_are_told_with_units_and_words_for_numbers_that_stand_for_none() -> None:
    settings = {"queue_total_budget": -1, "revisit.after": 0, "politeness.min_delay": 90.0, "precedence_floor": None}
    told = "queue_total_budget=no limit revisit.after=never politeness.min_delay=1m30s precedence_floor=none"
    assert as_told("set", settings) == told
    effect = {"before": {"frontier.queue_total_budget": -1}, "after": {"frontier.queue_total_budget": 3}}
    assert changes(effect) == [("frontier.queue_total_budget", "no limit", "3")]


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
