"""Groups in the settings: which are refused, which a URI fits, and their limits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier import CrawlUri, Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.grouping import LONGEST_NAME, NO_LIMITS, Grouping, GroupLimits
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.settings.schema import FrontierSettings


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


@pytest.mark.parametrize(
    ("group", "assignment", "fits"),
    [
        ({"by": "registered-domain"}, "registered-domain", True),
        ({"by": "registered-domain"}, "hostname", False),
        ({"by": "host"}, "registered-domain", False),
        ({"match": "*"}, "registered-domain", False),
    ],
)
def test_only_groups_that_are_whole_fit_into_partitions(group: dict[str, Any], assignment: str, fits: bool) -> None:
    settings = {
        "cluster": {"kafka": "127.0.0.1:9092"},
        "frontier": {"queue_assignment_policy": assignment},
        "groups": [{"name": "g"} | group],
    }
    if fits:
        assert Settings.from_dict(settings).groups
        return
    with pytest.raises(SettingsError, match="may be in several partitions"):
        Settings.from_dict(settings)


def test_a_crawl_in_partitions_has_no_bandwidth() -> None:
    with pytest.raises(SettingsError, match="no bandwidth of its own"):
        Settings.from_dict({"cluster": {"kafka": "127.0.0.1:9092"}, "frontier": {"max_bandwidth": "1MB"}})


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
    plain = Effective(FrontierSettings()).base
    assert found.limits_of("a/x.test", plain) == GroupLimits(politeness=True, max_in_flight=1)
    assert found.limits_of("b", plain) == GroupLimits(max_in_flight=3)
    assert found.limits_of("gone", plain) == NO_LIMITS
    others = replace(plain, group_total_budget=7, group_max_bandwidth=100)
    assert found.limits_of("b", others) == GroupLimits(max_in_flight=3, total_budget=7, max_bandwidth=100)


def test_addresses_are_whole_segments() -> None:
    found = grouping({"name": "s", "by": "surt", "segments": 2})
    assert found.name_of(CrawlUri("http://127.0.0.1:81/"), "x") == "s/127.0.0.1"
    assert found.name_of(CrawlUri("http://[::1]/"), "x") == "s/[::1]"
