"""Settings as plain data with durations and sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.settings import Settings
from budgetfrontier.settings.field import Row, all_settings
from budgetfrontier.settings.profiles import profiles
from budgetfrontier.settings.quantities import in_words, with_unit, with_units
from budgetfrontier.settings.validation import profile

GIVEN: dict[str, Any] = {
    "frontier": {"retry": {"delay": 5400}, "politeness": {"min_delay": 0.5}},
    "limits": {"max_time": 86400, "max_bytes": 65536, "max_uris": 60},
    "alerts": {"disk_full_within": 43200, "starved": None},
    "overrides": [{"match": "*", "set": {"retry.delay": 60, "precedence": 60}}],
}


def test_durations_and_sizes_have_units_and_other_numbers_have_none() -> None:
    data = with_units(Settings.from_dict(GIVEN))
    assert (data["frontier"]["retry"]["delay"], data["frontier"]["politeness"]["min_delay"]) == ("1h30m", "500ms")
    assert (data["limits"]["max_time"], data["limits"]["max_bytes"]) == ("1d", "64KiB")
    assert data["limits"]["max_uris"] == 60
    assert (data["alerts"]["disk_full_within"], data["alerts"]["starved"]) == ("12h", None)
    assert data["overrides"][0]["set"] == {"retry.delay": "1m", "precedence": 60}


def test_they_are_read_back_as_they_were() -> None:
    for settings in (Settings(), Settings.from_dict(GIVEN), *(profile(name, Settings()) for name in profiles())):
        assert Settings.from_dict(with_units(settings)) == settings


def test_a_number_that_stands_for_something_else_is_told_as_its_documentation_has_it() -> None:
    assert in_words("frontier.queue_total_budget", -1) == in_words("queue_total_budget", -1) == "no limit"
    assert (in_words("queue_total_budget", 3), in_words("queue_total_budget", 0)) == ("", "")
    assert (in_words("limits.max_time", 0.0), in_words("revisit.after", 0)) == ("no limit", "never")
    assert (in_words("alerts.trap", None), in_words("fetch.proxy", None)) == ("never", "none")
    assert (in_words("hold_queues", False), in_words("wake_time", None), in_words("seeds", "0")) == ("", "", "")


@pytest.mark.parametrize("row", all_settings(Settings), ids=lambda row: row.name)
def test_no_setting_has_a_number_below_zero_or_a_null_without_words(row: Row) -> None:
    if "null" in row.type:
        assert in_words(row.name, None)
    if "from -1" in row.type or "-1" in row.type:
        assert in_words(row.name, -1) == "no limit"


def test_units_are_those_of_any_setting() -> None:
    for name, value, written in [
        ("limits.max_time", 5400, "1h30m"),
        ("frontier.retry.delay", 60, "1m"),
        ("retry.delay", 60, "1m"),
        ("fetch.max_body", 65536, "64KiB"),
        ("guards.resume_at", 65536, "64KiB"),
        ("precedence", 60, 60),
        ("nothing", 60, 60),
    ]:
        assert with_unit(name, value) == written
