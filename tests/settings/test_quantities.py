"""Settings as plain data with durations and sizes as people write them."""

from __future__ import annotations

from typing import Any

from budgetfrontier.settings import Settings
from budgetfrontier.settings.profiles import profiles
from budgetfrontier.settings.quantities import with_units
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
