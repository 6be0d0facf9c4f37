"""The names of settings: spellings that mean the same, and aliases."""

from __future__ import annotations

from budgetfrontier.settings import Settings
from tests.settings.files import Files, problems


def test_aliases_and_the_bounds_of_precedence() -> None:
    for name in ("precedence", "queue_precedence", "base-precedence"):
        assert Settings.from_dict({"frontier": {name: 65535}}).frontier.precedence == 65535
        assert len(problems({"frontier": {name: 65536}})) == len(problems({"frontier": {name: -1}})) == 1
    assert Settings.from_dict({"frontier": {"pause-on-finish": True}}).frontier.pause_at_finish


def test_a_section_with_a_similar_name_is_suggested_for_a_mapping() -> None:
    assert problems({"limit": {}})[0].endswith('unknown key "limit"; did you mean "limits"?')
    assert "max_uris" in problems({"limit": 5})[0]


def test_kebab_case_means_the_same(files: Files) -> None:
    kebab = files.settings("frontier:\n  hold-queues: false\n  queue-total-budget: 5\n  cost-policy: zero\n")
    assert kebab == files.settings("frontier:\n  hold_queues: false\n  queue_total_budget: 5\n  cost_policy: zero\n")
