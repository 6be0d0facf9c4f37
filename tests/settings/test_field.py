"""The list of all settings: each documented in one line, and those marked that hold per URI."""

from __future__ import annotations

from budgetfrontier.settings import Settings
from budgetfrontier.settings.field import all_settings


def test_every_setting_has_one_line_of_documentation() -> None:
    rows = all_settings(Settings)
    assert len({row.name for row in rows}) == len(rows) > 50
    for row in rows:
        assert row.doc and "\n" not in row.doc and len(row.doc) < 100, row.name
        assert row.type, row.name


def test_the_settings_that_hold_per_uri_are_marked() -> None:
    per_uri = {row.name.removeprefix("frontier.") for row in all_settings(Settings) if row.overridable}
    assert {"balance_replenish_amount", "queue_total_budget", "cost_policy", "politeness.min_delay"} <= per_uri
    assert {"retry.delay", "precedence", "order", "max_queue_size"} <= per_uri
    assert not {"hold_queues", "pause_at_finish", "queue_assignment_policy", "lease_ttl"} & per_uri
