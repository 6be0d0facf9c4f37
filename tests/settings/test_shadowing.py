"""Warnings about values that adjustments shadow: those that certainly have no effect, and no others."""

from __future__ import annotations

import pytest

from budgetfrontier import Settings
from budgetfrontier.settings.matching import covers, parse_match
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.shadowing import MOST, shadowed


@pytest.mark.parametrize(
    ("wider", "match", "certain"),
    [
        ("*", "regex:x", True),
        ("regex:x", "regex:x", True),
        ("domain:a.test", "host:www.a.test", True),
        ("domain:a.test", "domain:b.a.test", True),
        ("host:a.test", "domain:a.test", False),
        ("host:*.test", "host:a.test", True),
        ("host:*.test", "domain:a.test", False),
        ("queue:a*", "queues:a.test,ab.test", True),
        ("queues:a,b", "queue:b", True),
        ("queues:a,b", "queues:b,c", False),
        ("domain:a.test", "queue:a.test", False),
        ("queue:a.test", "host:a.test", False),
        ("surt:(test,", "surt:(test,a,", False),
    ],
)
def test_what_certainly_matches_all_of_another(wider: str, match: str, certain: bool) -> None:
    assert covers(parse_match(wider), parse_match(match)) is certain


JOB = "a job"


def back(number: int) -> str:
    """Return how to take an adjustment back."""
    return f"`budgetfrontier adjust 'a job' --remove {number}` takes it back"


def test_values_without_effect_are_named() -> None:
    settings = Settings.from_dict(
        {
            "frontier": {"queue_total_budget": 7, "max_queue_size": 9},
            "overrides": [
                {"match": "host:a.test", "set": {"queue_total_budget": 5, "precedence": 1}},
                {"match": "host:b.test", "set": {"queue_total_budget": 500}},
            ],
        }
    )
    wide = Override("*", {"queue_total_budget": 500, "balance_replenish_amount": 1}, id=17)
    assert list(shadowed(settings, [wide], JOB)) == [
        "frontier.queue_total_budget 7 has no effect: adjustment 17 (*) sets it to 500; "
        "`budgetfrontier adjust 'a job' --remove 17` takes it back",
        "override 1: queue_total_budget 5 (host:a.test) has no effect: adjustment 17 (*) sets it to 500; "
        "`budgetfrontier adjust 'a job' --remove 17` takes it back",
    ]
    assert not list(shadowed(settings, [Override("host:www.a.test", {"queue_total_budget": 1})], JOB))


def test_values_of_sheets_without_effect_are_named() -> None:
    settings = Settings.from_dict(
        {
            "frontier": {"precedence": 4},
            "sheets": {"small": {"queue_total_budget": 5, "max_queue_size": 9}, "other": {}},
            "associations": [{"sheet": "small", "domain": "a.test"}, {"sheet": "other", "host": "b.test"}],
            "overrides": [{"match": "host:c.test", "set": {"queue_total_budget": 6}}],
        }
    )
    given = [
        Override("domain:a.test", {"queue_total_budget": 500}, id=1),
        Override("sheet:small", {"max_queue_size": 10}, id=2),
        Override("host:b.test", {"without_sheet": "other"}, id=3),
        Override("sheet:late", {"precedence": 1}, id=4),
        Override("*", {"sheet": "late"}, id=5),
        Override("host:c.test", {"queue_total_budget": 6}, id=6),
    ]
    assert list(shadowed(settings, given, JOB)) == [
        f"frontier.precedence 4 has no effect: adjustment 5 (*) sets it to 1; {back(5)}",
        f"sheets.small: max_queue_size 9 has no effect: adjustment 2 (sheet:small) sets it to 10; {back(2)}",
        "sheet other (host:b.test) has no effect: an operator has ended this association; "
        "`budgetfrontier sheet 'a job' add other --match host:b.test` makes it again",
        "sheet small: queue_total_budget 5 (domain:a.test) has no effect: adjustment 1 (domain:a.test) sets it to 500; "
        + back(1),
    ]


def test_a_sheet_that_is_gone_is_named() -> None:
    [told] = shadowed(Settings(), [Override("host:a.test", {"sheet": "gone"}, id=3)], JOB)
    assert told == "adjustment 3 associates host:a.test with the sheet gone, which is not in the settings any more"


GROUPS = [
    {"name": "g", "by": "host", "total_budget": 5, "max_in_flight": 2},
    {"name": "h", "match": "host:a.test", "quotas": {"urls": 3}, "max_in_flight": 2},
]


def test_limits_of_groups_without_effect_are_named() -> None:
    settings = Settings.from_dict({"groups": GROUPS})
    given = [
        Override("group:g", {"group.total_budget": 60}, id=1),
        Override("group:g/a.test", {"group.max_in_flight": 1}, id=2),
        Override("group:h", {"group.quotas": {"urls": 4}, "group.total_budget": 2, "group.max_in_flight": 3}, id=3),
        Override("group:?", {"group.max_in_flight": 2}, id=4),
        Override("group:g", {"group.max_in_flight": 9}, id=5),
        Override("group:g", {"group.max_in_flight": None}, id=6),
    ]
    assert list(shadowed(settings, given, JOB)) == [
        f"groups: total_budget 5 of g has no effect: adjustment 1 (group:g) sets it to 60; {back(1)}",
        f"groups: quotas {{'urls': 3}} of h has no effect: adjustment 3 (group:h) sets it to {{'urls': 4}}; {back(3)}",
    ]


@pytest.mark.parametrize(
    ("match", "groups", "words"),
    [
        ("group:g", [], 'no group is defined as "g": there are none'),
        ("group:other/a.test", GROUPS, 'no group is defined as "other"; there are g, h'),
        ("group:h/a.test", GROUPS, '"h" is one group, without a value: write "group:h"'),
    ],
)
def test_adjustments_of_groups_that_are_gone_are_named(match: str, groups: list[object], words: str) -> None:
    [told] = shadowed(Settings.from_dict({"groups": groups}), [Override(match, {"group.total_budget": 9}, id=7)], JOB)
    assert told == f"adjustment 7 ({match}) has no effect; {back(7)}: {words}"


def test_budgets_of_seeds_without_effect_are_named() -> None:
    settings = Settings.from_dict({"seeds": [{"url": "http://a.test/", "budget": 5}]})
    assert [*shadowed(settings, [Override("queue:a.test", {"queue_total_budget": 6}, id=1)], JOB)] == [
        "the seed http://a.test/: queue_total_budget 5 (queue:a.test) has no effect: adjustment 1 (queue:a.test) sets "
        "it to 6; `budgetfrontier adjust 'a job' --remove 1` takes it back"
    ]


def test_many_warnings_are_counted() -> None:
    overrides = [{"match": f"host:h{n}.test", "set": {"precedence": 1}} for n in range(MOST + 2)]
    told = list(shadowed(Settings.from_dict({"overrides": overrides}), [Override("*", {"precedence": 2})], JOB))
    assert len(told) == MOST + 1 and told[-1].startswith("2 more values")
