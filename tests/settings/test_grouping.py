"""Groups in the settings: which are refused, which a URI fits, and their limits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from budgetfrontier import CrawlUri, Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.grouping import (
    LONGEST_VALUE,
    NO_LIMITS,
    Grouping,
    GroupLimits,
    fits,
    objection,
    of_uris,
    patterns,
)
from budgetfrontier.settings.schema import Override
from budgetfrontier.settings.sheets import groups_in_force
from budgetfrontier.settings.validation import Validator


def grouping(*groups: dict[str, Any]) -> Grouping:
    return Grouping(Settings.from_dict({"groups": list(groups)}).groups)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([{"match": "*"}], "groups[0]: a group needs a name"),
        ([{"name": "a"}], "groups[0]: a group has either a match"),
        ([{"name": "a", "match": "*", "by": "host"}], "groups[0]: a group has either a match"),
        ([{"name": "a/b", "match": "*"}], "groups[0].name: expected a name of at most 100 ASCII letters"),
        (
            [{"name": "größe", "match": "*"}],
            'groups[0].name: expected a name of at most 100 ASCII letters, digits, _, . and -, got "größe"',
        ),
        ([{"name": "g" * 101, "match": "*"}], "groups[0].name: expected a name of at most 100 ASCII letters"),
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


@pytest.mark.parametrize("sign", ["x", "\u00e9", "\u4e16", "\U0001f310"])
def test_values_that_begin_with_the_same_bytes_are_one_group(sign: str) -> None:
    """A name that LMDB could not hold would be no limit, or the end of the crawl."""
    found = grouping({"name": "n" * 100, "by": "label"})
    labels = [f"a{sign * LONGEST_VALUE}{end}" for end in ("", "1", "2")]
    names = {found.name_of(CrawlUri("https://a.test/", source=label), "a.test") for label in labels}
    assert len(names) == 1
    name = names.pop() or ""
    assert 496 < len(name.encode()) <= 500
    assert name.partition("/")[2] in labels[0]
    assert [fits(f"group:*/{label}", found.groups)(name) for label in (*labels, "b")] == [True, True, True, False]
    override = Override(f"group:{name}", {"precedence": 2})
    assert "no pattern of URIs stands for" in (objection(override, found.groups) or "")
    assert of_uris([override], found.groups) == []


def test_limits_are_those_of_the_definition() -> None:
    found = grouping({"name": "a", "by": "host", "politeness": True}, {"name": "b", "match": "*", "max_in_flight": 3})
    assert found.limits_of("a/x.test") == GroupLimits(politeness=True, max_in_flight=1)
    assert found.limits_of("b") == GroupLimits(max_in_flight=3)
    assert found.limits_of("gone") == NO_LIMITS


def test_overrides_and_adjustments_replace_limits_of_the_groups_that_they_name() -> None:
    settings = Settings.from_dict(
        {
            "frontier": {"group": {"max_bandwidth": 100}},
            "groups": [{"name": "a", "by": "host", "total_budget": 5}, {"name": "b", "match": "*", "max_in_flight": 3}],
            "overrides": [
                {"match": "group:a", "set": {"group.total_budget": 7}},
                {"match": "group:a/*.test", "set": {"group": {"max_in_flight": 2}}},
            ],
        }
    )
    found = groups_in_force(settings, [Override("group:?/x.test", {"group.total_budget": 9})])
    assert found.limits_of("a/x.test") == GroupLimits(max_in_flight=2, total_budget=9, max_bandwidth=100)
    assert found.limits_of("a/y.test") == GroupLimits(max_in_flight=2, total_budget=7, max_bandwidth=100)
    assert found.limits_of("a/x.example") == GroupLimits(total_budget=7, max_bandwidth=100)
    assert found.limits_of("b") == GroupLimits(max_in_flight=3, max_bandwidth=100)


@pytest.mark.parametrize(
    ("group", "pattern", "expected"),
    [
        ({"match": "domain:a.test"}, "group:g", ["domain:a.test"]),
        ({"match": "domain:a.test"}, "group:h", []),
        ({"match": "domain:a.test"}, "group:g/x", []),
        ({"by": "host"}, "group:g/*.test", ["host:*.test"]),
        ({"by": "host"}, "group:?", ["*"]),
        ({"by": "registered-domain"}, "group:g/a.test", ["domain:a.test"]),
        ({"by": "registered-domain"}, "group:g/*.test", []),
        ({"by": "label"}, "group:g/red", ["label:red"]),
        ({"by": "label"}, "group:g", []),
        ({"by": "ip"}, "group:g/192.0.2.1", []),
        ({"by": "surt"}, "group:g/org,example", ["surt:(org,example,"]),
        ({"by": "surt"}, "group:g/localhost", ["host:localhost"]),
        ({"by": "surt", "segments": 1}, "group:g/127.0.0.1", ["host:127.0.0.1"]),
    ],
)
def test_settings_of_uris_for_a_group_are_for_what_its_definition_fits(
    group: dict[str, Any], pattern: str, expected: list[str]
) -> None:
    groups = grouping({"name": "g", "max_in_flight": 2} | group).groups
    assert patterns(pattern, groups) == expected
    override = Override(pattern, {"precedence": 2, "group.total_budget": 5})
    found = of_uris([Override("*", {"precedence": 3}), override], groups)
    assert [(one.match, one.set) for one in found[1:]] == [(match, {"precedence": 2}) for match in expected]
    assert (objection(override, groups) is None) == bool(expected)
    if not expected and pattern != "group:h" and "match" not in group:
        assert objection(replace(override, set={"group.total_budget": 5}), groups) is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"overrides": [{"match": "*", "set": {"group.total_budget": 5}}]}, "overrides[0]: group.total_budget is a"),
        ({"overrides": [{"match": "group:c", "set": {"precedence": 5}}]}, "overrides[0].match: no group is defined as"),
        ({"overrides": [{"match": "group:one/x", "set": {"precedence": 5}}]}, 'overrides[0].match: "one" is one group'),
        ({"groups": [{"name": "g", "match": "group:x"}]}, 'groups[0].match: "group:x" is for overrides and adjust'),
        ({"sheets": {"s": {"group": {"total_budget": 5}}}}, "sheets.s: group.total_budget is a limit of groups"),
        (
            {"groups": [{"name": "g", "by": "host", "segments": 2}]},
            "groups[0].segments: segments are of groups by: surt",
        ),
    ],
)
def test_patterns_of_groups_are_refused_where_they_mean_nothing(data: dict[str, Any], problem: str) -> None:
    groups = [{"name": "one", "match": "*", "max_in_flight": 2}]
    with pytest.raises(SettingsError) as caught:
        Settings.from_dict({"groups": groups} | data)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


def test_a_group_lists_queue_keys_as_overrides_do() -> None:
    found = grouping({"name": "some", "match": {"queues": ["a.test", "b.test"]}, "max_in_flight": 2})
    assert found.groups[0].match == "queues:a.test,b.test"


def test_an_error_in_a_group_has_no_errors_that_follow_from_it() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_dict({"groups": [{"name": 5, "match": "*"}, {"name": "b", "by": "colour"}, {"name": "c"}]})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "groups[0].name",
        "groups[1].by",
        "groups[2]",
    ]


@pytest.mark.parametrize(("override", "warned"), [("group:all", False), ("group:*", False), (None, True)])
def test_a_group_without_limits_is_warned_of(override: str | None, warned: bool) -> None:
    overrides = [{"match": override, "set": {"group.max_in_flight": 2}}] if override else []
    validator = Validator()
    validator.settings({"groups": [{"name": "all", "match": "*"}], "overrides": overrides}, Settings())
    assert not validator.problems
    assert [warning.path for warning in validator.warnings] == [("groups", 0)] * warned


def test_addresses_are_whole_segments() -> None:
    found = grouping({"name": "s", "by": "surt", "segments": 2})
    assert found.name_of(CrawlUri("http://127.0.0.1:81/"), "x") == "s/127.0.0.1"
    assert found.name_of(CrawlUri("http://[::1]/"), "x") == "s/[::1]"


@pytest.mark.parametrize(
    ("by", "text", "name"),
    [
        ("registered-domain", "group:g/XA.test", "g/xa.test"),
        ("registered-domain", "group:g/xa.test.", "g/xa.test"),
        ("registered-domain", "group:g/bücher.example", "g/xn--bcher-kva.example"),
        ("registered-domain", "group:g/X?.Test", "g/xa.test"),
        ("host", "group:g/www.XA.test:80", "g/www.xa.test"),
        ("host", "group:g/[2001:DB8::1]", "g/[2001:db8::1]"),
        ("surt", "group:g/TEST,xa", "g/test,xa"),
    ],
)
def test_hosts_of_groups_are_one_host_in_all_spellings(by: str, text: str, name: str) -> None:
    groups = Settings.from_dict({"groups": [{"name": "g", "by": by, "max_in_flight": 9}]}).groups
    found = Grouping(groups, [Override(text, {"group.max_in_flight": 3})])
    assert found.limits_of(name).max_in_flight == 3
    assert found.limits_of("g/b.test").max_in_flight == 9
    assert [group_fits(name) for group_fits in (fits(text, groups), fits(text, ()))] == [True, True]


def test_labels_of_groups_are_as_they_are() -> None:
    found = Grouping(
        Settings.from_dict({"groups": [{"name": "g", "by": "label", "max_in_flight": 9}]}).groups,
        [Override("group:g/News", {"group.max_in_flight": 3})],
    )
    assert [found.limits_of(name).max_in_flight for name in ("g/News", "g/news")] == [3, 9]
