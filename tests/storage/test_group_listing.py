"""Listings of groups: their states, their limits, and the fullest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import GroupRecord
from budgetfrontier.engine.commands import state_preview
from budgetfrontier.reports import over_time
from budgetfrontier.reports.explain import explain
from budgetfrontier.reports.retired_list import retired_again
from budgetfrontier.rules import group_limits
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.settings.grouping import GroupLimits
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.group_listing import GroupsListed
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.standing import standing
from budgetfrontier.storage.view import View
from tests.support import START, crawl, kernel, make_settings, opened, state

GROUPS = [
    {"name": "spent", "match": "domain:spent.test", "total_budget": 1},
    {"name": "half", "match": "domain:half.test", "total_budget": 4, "max_in_flight": 1},
    {"name": "clock", "match": "domain:clock.test", "politeness": True},
]


def grouped(*groups: dict[str, Any]) -> Settings:
    return Settings.from_dict(make_settings(hold_queues=False, polite=True).to_dict() | {"groups": list(groups)})


def stored(path: Path) -> View:
    """Store one group over its budget, one with a fetch in flight, one whose clock is ahead, and a queue in none."""
    opened.append(Frontier.open(path, grouped(*GROUPS), clock=ManualClock(START)))
    f = opened[-1]
    f.schedule_many(f"https://{name}.{of}.test/{page}" for of in ("spent", "half") for name in "ab" for page in "xy")
    f.schedule_many(["https://a.clock.test/", "https://b.clock.test/", "https://other.example/"])
    for _ in range(2):
        for lease in f.lease(50):
            if "half" not in lease.uri.url:
                f.finish(lease, size=100)
    return kernel(f).tables.flushed()


def test_groups_are_listed_with_their_states_and_limits_the_fullest_first(tmp_path: Path) -> None:
    view = stored(tmp_path / "f")
    found = group_listing.listed(view, START)
    spent, half, clock = found.fullest
    assert (found.count, found.states) == (3, {"over_budget": 1, "waits": 1, "full": 1})
    assert (spent.group, spent.expenditure, spent.total_budget, spent.share) == ("spent", 2, 1, 2.0)
    assert (half.state, half.in_flight, half.max_in_flight, half.parked, half.queues) == ("full", 1, 1, 1, 2)
    assert (clock.wake_time, clock.bytes, clock.total_budget, clock.share) == (START + 3.0, 100, -1, 0.0)
    assert group_listing.listed(view, START, 1).fullest == [spent]
    assert group_listing.listed(view, START + 9).states["open"] == 1


def test_the_group_of_a_queue_and_the_queues_of_groups(tmp_path: Path) -> None:
    view = stored(tmp_path / "f")
    queue, other = view.find_queue("a.half.test"), view.find_queue("other.example")
    assert queue is not None and other is not None
    row = group_listing.group_of(view, queue, START)
    assert row is not None and (row.group, group_listing.name_of(view, queue.group)) == ("half", "half")
    assert (group_listing.group_of(view, other, START), group_listing.name_of(view, other.group)) == (None, None)
    names = [sorted(q.queue for q in filter(group_listing.in_groups(view, glob), view.stored_queues())) for glob in
             ("half", "*l*", "x", None)]  # fmt: skip
    assert list(map(len, names)) == [2, 4, 0, 7]


def test_the_standing_names_the_group_for_which_queues_wait(tmp_path: Path) -> None:
    view = stored(tmp_path / "f")
    found = standing(view, tmp_path / "f", now=START)
    assert (found.parked, found.group, found.next_wake) == (2, "clock", START + 3.0)
    opened[-1].close()
    with Frontier.open(tmp_path / "g", grouped({"name": "one", "match": "*", "max_in_flight": 1})) as f:
        f.schedule_many(["https://a.test/", "https://b.test/"])
        f.lease(9)
        found = standing(kernel(f).tables.flushed(), tmp_path / "g", now=START)
        assert (found.parked, found.group, found.next_wake) == (1, "one", None)


def held(path: Path, group: dict[str, Any], **options: Any) -> Held:
    clock = ManualClock(START)
    settings = make_settings(hold_queues=False, polite=True, **options).to_dict() | {"groups": [group]}
    opened.append(Frontier.open(path, Settings.from_dict(settings), clock=clock))
    f = opened[-1]
    f.schedule_many(f"https://{name}.test/{page}" for name in "abc" for page in range(6))
    for _ in range(3):
        for lease in f.lease(50):
            f.finish(lease)
        clock.advance(60.0)
    return over_time.held(kernel(f).tables.flushed(), clock.time())


def test_the_clock_of_a_group_lets_its_uris_go_one_after_the_other(tmp_path: Path) -> None:
    found = held(tmp_path / "f", {"name": "all", "match": "*", "politeness": True})
    assert (found.tail, found.tail_queue, found.unlimited) == (14 * 3.0, "the group all", 15)


def test_the_budget_of_a_group_bounds_what_its_queues_spend(tmp_path: Path) -> None:
    capped = {"name": "all", "match": "*", "total_budget": 11}
    found = held(tmp_path / "f", capped)
    assert (found.spendable, found.unlimited, found.tail) == (3, 0, 0.0)
    found = held(tmp_path / "g", capped | {"total_budget": 1})
    assert (found.spendable, found.unlimited, found.tail) == (0, 0, 0.0)
    found = held(tmp_path / "h", capped, queue_total_budget=3)
    assert (found.spendable, found.unlimited) == (3, 0)


@pytest.mark.parametrize("spend", [0, 1])
def test_queues_that_join_a_group_in_their_next_turn_are_judged_by_its_budget(tmp_path: Path, spend: int) -> None:
    """What is told of a new queue, or of one from before the groups, is what its turn then does."""
    plain = make_settings(retire_when="reached").to_dict()
    settings = Settings.from_dict(plain | {"groups": [{"name": "dom", "by": "registered-domain", "total_budget": 2}]})
    opened.append(Frontier.open(tmp_path / "f", Settings.from_dict(plain), clock=ManualClock(START)))
    assert len(crawl_letters(opened[-1], ["https://old.a.test/0"] * spend)) == spend
    opened[-1].close()
    opened.append(f := Frontier.open(tmp_path / "f", settings, clock=ManualClock(START)))
    assert len(crawl_letters(f, [f"https://x.a.test/{page}" for page in range(4)])) == 2
    f.schedule_many(f"https://{name}.test/{page}" for name in ("new.a", "new.b") for page in range(4))
    f.schedule_many(["https://old.a.test/1"] * spend)
    f.commit()
    held_back = ["x.a.test", "new.a.test", *["old.a.test"] * spend]
    with Reader(tmp_path / "f") as reader, reader.view() as view:
        assert sorted(queue.queue for queue in reader.queues(over_budget=True)) == sorted(held_back)
        held = over_time.held(view, START)
        assert (held.spendable, held.unlimited) == (2, 0)
        again = {row.queue.queue: row.why for row in retired_again(view, "job", 9)}
        assert set(again) == set(held_back) - {"x.a.test"}
        assert again["new.a.test"] == "the group dom/a.test has spent 2 of its total budget of 2"
        [reason] = [one for one in explain(reader, "new.a.test", job="job").reasons if one.code == "over-budget"]
        assert reason.text.startswith("It will retire on its turn without a fetch: its group dom/a.test has spent 2,")
    told = f.adjust(match="queue:new.*", queue_total_budget=50, dry_run=True)
    assert (told.still_over, told.others["after"]) == (1, {"uris": 2, "spend": 2, "ceiling": 2})
    f.retire("new.a.test")
    foreseen = state_preview.of_queue(kernel(f).tables.flushed(), "unretire", {"queue": "new.a.test"}, START)
    f.unretire("new.a.test")
    assert (foreseen["still_over"], f.audit()[-1].effect["still_over"]) == (1, 1)
    assert crawl(f) == "NN"
    assert [state(f, name) for name in ("new.a", "new.b")] == ["RETIRED"] * 2


def crawl_letters(f: Frontier, urls: list[str]) -> str:
    """Schedule URLs, and crawl until nothing is handed out."""
    f.schedule_many(urls)
    return crawl(f)


def test_a_crawl_without_groups_lists_none(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "f", make_settings()).close()
    with Reader(tmp_path / "f") as reader:
        assert (reader.report().groups, reader.report().to_dict()["groups"]) == (
            GroupsListed(),
            {"states": {}, "fullest": []},
        )


@pytest.mark.parametrize(
    ("record", "limits", "expected"),
    [
        ({}, GroupLimits(), "open"),
        ({"wake_time": 9.0}, GroupLimits(), "open"),
        ({"wake_time": 9.0}, GroupLimits(True, 1), "waits"),
        ({"wake_time": 5.0, "out": 1}, GroupLimits(True, 1), "full"),
        ({"out": 1, "landed": 1}, GroupLimits(True, 1), "open"),
        ({"expenditure": 6}, GroupLimits(total_budget=5), "over_budget"),
        ({"expenditure": 5}, GroupLimits(total_budget=5), "open"),
        ({"expenditure": 4, "out": 2, "reserved": 2}, GroupLimits(total_budget=5), "reserved"),
    ],
)
def test_the_state_of_a_group(record: dict[str, float], limits: GroupLimits, expected: str) -> None:
    assert group_limits.state(GroupRecord("g", 1, **record), limits, False, 5.0) == expected  # type: ignore[arg-type]
