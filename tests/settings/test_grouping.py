"""Groups in the settings: which are refused, which a URI fits, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri, Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.grouping import LONGEST_NAME, NO_LIMITS, Grouping, GroupLimits


def grouping(*groups: dict[str, Any]) -> Grouping:
    return Grouping(Settings.from_dict({"groups": list(groups)}).groups)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([{"match": "*"}], "groups[0]: a group needs a name"),
        ([{"name": "a"}], "groups[0]: a group has either a match"),
        ([{"name": "a", "match": "*", "by": "host"}], "groups[0]: a group has either a match"),
        ([{"name": "a/b", "match": "*"}], "groups[0].name: expected a name of letters"),
        ([{"name": "a", "match": "nonsense"}], 'groups[0].match: "nonsense" is not a match'),
        ([{"name": "a", "by": "colour"}], "groups[0].by: expected"),
        ([{"name": "a", "match": "*", "max_in_flight": 0}], "groups[0].max_in_flight: expected"),
        ([{"name": "a", "match": "*"}, {"name": "a", "by": "host"}], "groups[1].name: a group before this one"),
        (["all"], "groups[0]: expected {name, match or by, ...}"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(groups: list[Any], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_dict({"groups": groups})
    assert caught.value.problems[0].startswith(problem)


def test_settings_with_groups_are_written_and_read() -> None:
    settings = Settings.from_dict({"groups": [{"name": "a", "match": "domain:a.test", "total_budget": 5}]})
    assert Settings.from_dict(settings.to_dict()) == settings


def test_a_uri_fits_the_first_group() -> None:
    found = grouping(
        {"name": "key", "match": "queue:forced"}, {"name": "of", "by": "label"}, {"name": "h", "by": "host"}
    )
    uri = CrawlUri("https://a.test/", source="red")
    assert found.name_of(uri, "forced") == "key"
    assert found.name_of(uri, "a.test") == "of/red"
    assert found.name_of(CrawlUri("https://a.test:8080/"), "a.test") == "h/a.test"
    assert grouping().name_of(uri, "a.test") is None


def test_a_name_that_is_too_long_makes_no_group() -> None:
    found = grouping({"name": "of", "by": "label"})
    assert found.name_of(CrawlUri("https://a.test/", source="x" * (LONGEST_NAME + 1)), "a.test") is None


def test_limits_are_those_of_the_definition() -> None:
    found = grouping({"name": "a", "by": "host", "politeness": True}, {"name": "b", "match": "*", "max_in_flight": 3})
    assert found.limits_of("a/x.test") == GroupLimits(politeness=True, max_in_flight=1)
    assert found.limits_of("b") == GroupLimits(max_in_flight=3)
    assert found.limits_of("gone") == NO_LIMITS


def test_addresses_are_whole_segments() -> None:
    found = grouping({"name": "s", "by": "surt", "segments": 2})
    assert found.name_of(CrawlUri("http://127.0.0.1:81/"), "x") == "s/127.0.0.1"
    assert found.name_of(CrawlUri("http://[::1]/"), "x") == "s/[::1]"
