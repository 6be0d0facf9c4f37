"""Changes that concern thousands of queues are worked off a part at a time, and come to the same as at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Lease, QueueState, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import returning_uris, rollout, turns
from budgetfrontier.storage.repair.repair_steps import repair
from tests.support import crawl_state, make_settings

HOSTS = 25


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten queues at a time, for a thousand would make slow tests."""
    monkeypatch.setattr(rollout.Rollout.step, "__defaults__", (10,))
    monkeypatch.setattr(turns, "MAX_TURNS", 10)
    monkeypatch.setattr(turns, "MAX_DUE", 10)
    monkeypatch.setattr(returning_uris, "MAX_DUE", 10)


def all_retired(path: Path | str = ":memory:") -> Frontier:
    """Two URIs on each host, one of them crawled: all queues are over their budget of nothing."""
    frontier = Frontier.open(path, make_settings(queue_total_budget=0))
    frontier.schedule_many(f"https://h{i:02}.test/{page}" for i in range(HOSTS) for page in "ab")
    drain(frontier)
    assert retired(frontier) == HOSTS
    return frontier


def retired(frontier: Frontier) -> int:
    return frontier.summary().queues["RETIRED"]


def drain(frontier: Frontier, calls: int = 100) -> list[str]:
    """The queues in the order of their turns."""
    order: list[str] = []
    for _ in range(calls):
        leases: list[Lease] = frontier.lease(1)
        if not leases and frontier.next_ready_in() is None:
            return order
        for lease in leases:
            frontier.finish(lease)
            order.append(lease.queue)
    raise AssertionError("it does not end")


def test_queues_revive_a_part_at_a_time_in_the_order_of_retirement() -> None:
    with all_retired() as frontier:
        assert frontier.adjust(queue_total_budget=100).reconsidered_count == HOSTS
        assert retired(frontier) == HOSTS - 10
        assert crawl_state(frontier) == "RUNNING"
        assert frontier.next_ready_in() == 0.0
        frontier.check()
        assert drain(frontier) == [f"h{i:02}.test" for i in range(HOSTS)]
        assert crawl_state(frontier) == "FINISHED"
        frontier.check()


def test_a_question_about_a_kept_url_revives_none() -> None:
    with Frontier.open(":memory:", make_settings(queue_total_budget=0, keep_urls=True)) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/{page}" for i in range(HOSTS) for page in "ab")
        drain(frontier)
        frontier.adjust(queue_total_budget=100)
        assert frontier.find_url("https://h24.test/a") is not None
        assert frontier.internals.kept_totals() is not None
        assert retired(frontier) == HOSTS - 10
        assert len(drain(frontier)) == HOSTS


def test_a_crawl_is_not_over_while_queues_are_to_revive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "MOST_THAT_STAY", 10)
    with all_retired() as frontier:
        for i in range(10):
            frontier.retire(f"h{i:02}.test")
        frontier.adjust(queue_total_budget=100)
        assert frontier.summary().queued == 0
        assert crawl_state(frontier) == "RUNNING"
        assert len(drain(frontier)) == HOSTS - 10


def test_nor_is_it_after_a_repair_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "MOST_THAT_STAY", 10)
    with all_retired(tmp_path / "f") as frontier:
        for i in range(10):
            frontier.retire(f"h{i:02}.test")
        frontier.adjust(queue_total_budget=100)
    assert repair(tmp_path / "f").first_changes == []
    with Reader(tmp_path / "f") as reader:
        summary = reader.summary()
        assert (summary.state, summary.queued) == ("RUNNING", 0)
        reader.check()


def test_commits_go_on_with_it_while_nothing_is_leased() -> None:
    with all_retired() as frontier:
        frontier.pause()
        frontier.adjust(queue_total_budget=100)
        frontier.commit()
        frontier.commit()
        assert retired(frontier) == 0


def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    with all_retired(tmp_path / "f") as frontier:
        frontier.adjust(queue_total_budget=100)
        frontier.check()
    with Frontier.open(tmp_path / "f") as frontier:
        assert retired(frontier) == HOSTS - 10
        assert len(drain(frontier)) == HOSTS
        frontier.check()


def test_queues_retired_by_name_stay_so() -> None:
    with all_retired() as frontier:
        frontier.retire("h03.test")
        frontier.retire("h20.test")
        assert frontier.adjust(queue_total_budget=100).reconsidered_count == HOSTS - 2
        frontier.unretire("h24.test")
        frontier.check()
        order = drain(frontier)
        assert sorted(order) == [f"h{i:02}.test" for i in range(HOSTS) if i not in (3, 20)]
        assert frontier.summary().queues["RETIRED"] == 2
        frontier.check()


def test_a_second_change_in_the_middle_of_the_first() -> None:
    with all_retired() as frontier:
        frontier.adjust(queue_total_budget=0)  # not enough: those that revive retire again on their turn
        for _ in range(2):
            assert frontier.lease(5) == []
        frontier.adjust(queue_total_budget=100)
        assert len(drain(frontier)) == HOSTS
        frontier.check()


@pytest.mark.parametrize("to_revive", [False, True])
def test_precedences_change_a_part_at_a_time(to_revive: bool) -> None:
    total = 0 if to_revive else -1
    with Frontier.open(":memory:", make_settings(queue_total_budget=total)) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/" for i in range(HOSTS))
        if to_revive:
            drain(frontier)
            frontier.schedule_many(f"https://h{i:02}.test/more" for i in range(HOSTS))
        frontier.adjust(match="host:h2?.test", precedence=1, queue_total_budget=100)
        frontier.adjust(match="host:h0?.test", precedence=2, queue_total_budget=100)
        frontier.check()
        while frontier.summary().queues["RETIRED"]:
            frontier.commit()
        for _ in range(10):
            frontier.commit()
        frontier.check()
        states = {i: frontier.queue(f"h{i:02}.test") for i in range(HOSTS)}
        expected = {i: {0: 2, 1: 3, 2: 1}[i // 10] for i in range(HOSTS)}
        assert {i: queue.precedence for i, queue in states.items() if queue} == expected


def test_queues_are_lifted_over_the_floor_a_part_at_a_time(tmp_path: Path) -> None:
    settings = make_settings(precedence_floor=4)
    with Frontier.open(tmp_path / "f", settings) as frontier:
        frontier.adjust(precedence=7)
        frontier.schedule_many(f"https://h{i:02}.test/" for i in range(HOSTS))
        frontier.adjust(precedence=1)
        assert frontier.summary().queues["INELIGIBLE"] == HOSTS - 10
        assert crawl_state(frontier) == "RUNNING"
        frontier.check()
    with Frontier.open(tmp_path / "f") as frontier:
        frontier.check()
        assert drain(frontier) == [f"h{i:02}.test" for i in range(HOSTS)]
        frontier.schedule_many(f"https://h{i:02}.test/more" for i in range(HOSTS))
        frontier.adjust(precedence=7)
        assert frontier.summary().queues["INELIGIBLE"] == 10
        assert drain(frontier) == []
        assert frontier.summary().queues["INELIGIBLE"] == HOSTS
        frontier.check()


def test_any_change_gives_waiting_queues_the_precedence_of_their_head_uris() -> None:
    lifted = [{"match": "regex:/first", "set": {"precedence": 1}}]
    with Frontier.open(":memory:", make_settings(overrides=lifted)) as frontier:
        frontier.schedule_each(f"https://{url}" for url in ("a.test/", "b.test/first", "b.test/second"))
        frontier.adjust(queue_total_budget=100)
        assert drain(frontier) == ["b.test", "b.test", "a.test"]


def test_a_look_at_a_queue_does_not_move_it() -> None:
    with Frontier.open(":memory:", make_settings()) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/" for i in range(HOSTS))
        frontier.adjust(precedence=1)  # for the first ten now
        last = frontier.queue(f"h{HOSTS - 1:02}.test")
        assert last is not None
        assert last.precedence == 1
        frontier.check()
        assert drain(frontier) == [f"h{i:02}.test" for i in range(HOSTS)]


def test_a_ring_over_budget_retires_a_part_at_a_time() -> None:
    with Frontier.open(":memory:", make_settings(hold_queues=False)) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/{page}" for i in range(HOSTS) for page in "ab")
        assert frontier.summary().queues["READY"] == HOSTS
        frontier.adjust(balance_replenish_amount=0)
        for left in (HOSTS - 10, HOSTS - 20, 0):
            assert frontier.lease(1) == []
            assert frontier.summary().queues["READY"] == left
            assert frontier.next_ready_in() == (0.0 if left else None)
        assert crawl_state(frontier) == "FINISHED"
        frontier.check()


def test_snoozed_queues_wake_a_part_at_a_time_in_their_order() -> None:
    clock = ManualClock(1e9)
    settings = make_settings(hold_queues=False, polite=True)
    with Frontier.open(":memory:", settings, clock=clock) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/{page}" for i in range(HOSTS) for page in "ab")
        for lease in frontier.lease(HOSTS):
            frontier.finish(lease)
        assert frontier.summary().queues["SNOOZED"] == HOSTS
        clock.advance(3600)
        order = []
        for expected in (10, 10, 5, 0):
            leases = frontier.lease(HOSTS)
            assert len(leases) == expected
            order += [lease.queue for lease in leases]
        assert order == [f"h{i:02}.test" for i in range(HOSTS)]
        frontier.check()


def test_what_is_due_is_placed_a_part_at_a_time() -> None:
    clock = ManualClock(1e9)
    with Frontier.open(":memory:", make_settings(hold_queues=False), clock=clock) as frontier:
        frontier.schedule_many(CrawlUri(f"https://h{i:02}.test/", not_before=1e9 + 60) for i in range(HOSTS))
        assert frontier.lease(1) == []
        clock.advance(60)
        for left in (HOSTS - 10, HOSTS - 20, 0):
            assert len(frontier.lease(HOSTS)) == (10 if left else 5)
            assert frontier.summary().future == left
            if left:
                assert frontier.next_ready_in() == 0.0
        frontier.check()


def test_a_queue_that_has_not_come_to_its_turn_is_still_retired() -> None:
    with all_retired() as frontier:
        frontier.adjust(queue_total_budget=100)
        last = frontier.queue(f"h{HOSTS - 1:02}.test")
        assert last is not None
        assert last.state is QueueState.RETIRED
        frontier.schedule(f"https://h{HOSTS - 1:02}.test/c")
        frontier.check()
        assert len(drain(frontier)) == HOSTS + 1


def test_each_commit_of_a_change_that_brings_no_uri_back_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "MOST_THAT_STAY", 10)
    with Frontier.open(tmp_path / "frontier", make_settings()) as frontier:
        frontier.schedule_many(f"https://h{i:02}.test/" for i in range(HOSTS))
        for i in range(HOSTS - 1):
            frontier.retire(f"h{i:02}.test")
        frontier.finish(frontier.lease(1)[0], retire_queue=True)
        frontier.commit()
        frontier.adjust(queue_total_budget=100)
        assert crawl_state(frontier) == "RUNNING"
        for _ in range(2):
            frontier.commit()
            with Reader(tmp_path / "frontier") as reader:
                reader.check()
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().state == "FINISHED"


def test_a_change_that_revives_nothing_leaves_a_finished_crawl_finished() -> None:
    with all_retired() as frontier:
        before = retired(frontier)
        frontier.adjust(match="host:other.test", queue_total_budget=70)
        assert (crawl_state(frontier), retired(frontier), frontier.summary().queued) == ("FINISHED", before, 0)
        assert frontier.next_ready_in() is None
        frontier.check()
        frontier.adjust(match="host:h17.test", queue_total_budget=70)
        assert (crawl_state(frontier), retired(frontier), frontier.summary().queued) == ("RUNNING", HOSTS - 1, 1)
        assert drain(frontier) == ["h17.test"]
        assert crawl_state(frontier) == "FINISHED"


@pytest.mark.parametrize(
    "limits",
    [
        {"quotas": {"queue": {"successes": 1}}},
        {"groups": [{"name": "all", "match": "*", "total_budget": 0}]},
    ],
)
def test_a_used_up_quota_or_group_leaves_a_crawl_paused_at_its_finish(limits: dict[str, Any]) -> None:
    with Frontier.open(":memory:", make_settings(pause_at_finish=True, **limits)) as frontier:
        frontier.schedule_many(f"https://h.test/{page}" for page in "abc")
        frontier.finish(frontier.lease(1)[0])
        assert frontier.lease(1) == []
        assert (crawl_state(frontier), retired(frontier)) == ("PAUSED", 1)
        frontier.adjust(match="host:other.test", queue_total_budget=70)
        assert (retired(frontier), frontier.summary().queued) == (1, 0)
        frontier.check()
        change = {"group": {"total_budget": 9}} if "groups" in limits else {"quotas.queue": {"successes": 2}}
        frontier.adjust(match="group:all" if "groups" in limits else "*", **change)  # type: ignore[arg-type]
        assert (retired(frontier), frontier.summary().queued) == (0, 2)
