"""Warnings about values that adjustments shadow: those that certainly have no effect, and no others."""

from __future__ import annotations

import pytest

from budgetfrontier import Settings
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.shadowing import MOST, covers, shadowed


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
    assert list(shadowed(settings, [wide])) == [
        "frontier.queue_total_budget 7 has no effect: adjustment 17 (*) sets it to 500; "
        "`budgetfrontier adjust JOB --remove ID` takes it back",
        "override 1: queue_total_budget 5 (host:a.test) has no effect: adjustment 17 (*) sets it to 500; "
        "`budgetfrontier adjust JOB --remove ID` takes it back",
    ]
    assert not list(shadowed(settings, [Override("host:www.a.test", {"queue_total_budget": 1})]))


def test_many_warnings_are_counted() -> None:
    overrides = [{"match": f"host:h{n}.test", "set": {"precedence": 1}} for n in range(MOST + 2)]
    told = list(shadowed(Settings.from_dict({"overrides": overrides}), [Override("*", {"precedence": 2})]))
    assert len(told) == MOST + 1 and told[-1].startswith("2 more values")
