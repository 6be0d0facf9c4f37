"""What `explain` says of a queue that waits for its group, or whose group is over budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.explain import explain
from tests.support import START, make_settings, pages


def reasons(tmp_path: Path, clock: ManualClock, key: str) -> dict[str, str]:
    with Reader(tmp_path / "f") as reader:
        found = explain(reader, key, job="job", now=clock.time()).reasons
    return {reason.code: reason.text for reason in found}


@pytest.mark.parametrize(
    ("limits", "code", "text"),
    [
        ({"politeness": True}, "group-waits", "its group all rests for 3s more: politeness"),
        ({"max_bandwidth": 100}, "group-waits", "its group all rests for 7s more: bandwidth"),
        ({"total_budget": 0}, "over-group-budget", "its group all has spent 1, and its total budget is 0"),
    ],
)
def test_what_a_group_has_to_do_with_it(tmp_path: Path, limits: dict[str, Any], code: str, text: str) -> None:
    clock = ManualClock(START)
    settings = make_settings(hold_queues=False, polite=True).to_dict()
    settings["groups"] = [{"name": "all", "match": "*"} | limits]
    with Frontier.open(tmp_path / "f", Settings.from_dict(settings), clock=clock) as f:
        f.schedule_many(pages("ab", 2))
        f.finish(f.lease(1)[0], size=700)
        assert f.lease(9) == []
        f.commit()
        assert text in reasons(tmp_path, clock, "b.test")[code]


def test_a_group_whose_fetches_are_in_flight(tmp_path: Path) -> None:
    clock = ManualClock(START)
    settings = make_settings(hold_queues=False).to_dict()
    settings["groups"] = [{"name": "all", "match": "*", "max_in_flight": 1}]
    with Frontier.open(tmp_path / "f", Settings.from_dict(settings), clock=clock) as f:
        f.schedule_many(pages("abc", 1))
        f.lease(9)
        f.commit()
        text = reasons(tmp_path, clock, "b.test")["group-waits"]
        assert "as many fetches of its group all are in flight as may be: 1; others that wait with it: 1" in text


@pytest.mark.parametrize("domains", [1, 2])
def test_a_group_that_has_its_budget_by_links(tmp_path: Path, domains: int) -> None:
    clock = ManualClock(START)
    settings = make_settings(hold_queues=False).to_dict()
    settings["groups"] = [{"name": "domain", "by": "registered-domain", "total_budget": "star"}]
    settings["frontier"] |= {"star": {"default_budget": 0, "max_budget": 1}, "retire_when": "reached"}
    with Frontier.open(tmp_path / "f", Settings.from_dict(settings), clock=clock) as f:
        f.schedule_many(CrawlUri(f"http://b.test/{n}", via=f"http://a{n % domains}.test/") for n in range(4))
        while f.next_ready_in() is not None:
            f.finish_many(f.lease(9))
        f.commit()
        links = "domain links" if domains == 1 else "domains link"
        said = f"has spent 1, and its total budget is 1, for {domains} other {links} to it."
        assert said in reasons(tmp_path, clock, "b.test")["over-group-budget"]
        f.adjust(match="group:domain/b.test", group={"total_budget": 1})
        f.commit()
        said = "has spent 1, and its total budget is 1. The command raises it to"
        assert said in "".join(reasons(tmp_path, clock, "b.test").values())
