"""Turns of queues: arrivals, activation, what may go out of them, and what takes them out of rotation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import turns
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage.keys import PENDING
from tests.support import START, crawl, crawl_state, kernel, memory, on_disk, one, pages, paths, record, state


def test_a_held_queue_starts_inactive() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "INACTIVE"


def test_a_queue_not_held_is_active_at_once() -> None:
    with memory(hold_queues=False, balance_replenish_amount=7) as f:
        f.schedule_many(pages("A", 1))
        assert (state(f, "A"), record(f, "A").balance) == ("READY", 7)


def test_a_queue_not_held_waits_in_no_fifo_before_it_is_activated() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        assert kernel(f).counters.fifo_back == 0
        f.check()


def test_a_queue_not_held_is_ineligible_at_the_precedence_floor() -> None:
    with memory(hold_queues=False, precedence_floor=3, precedence=3) as f:
        f.schedule_many(pages("A", 2))
        assert (state(f, "A"), f.summary().queued) == ("INELIGIBLE", 0)
        f.check()


@pytest.mark.parametrize(
    "budget", [{"balance_replenish_amount": 0}, {"queue_total_budget": 0, "retire_when": "reached"}]
)
def test_a_queue_not_held_and_without_means_is_retired_at_once(budget: dict[str, Any]) -> None:
    with memory(hold_queues=False, **budget) as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "RETIRED"


def test_an_exhausted_queue_comes_back_with_its_history() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        assert crawl(f) == "AA"
        assert state(f, "A") == "EXHAUSTED"
        f.schedule("https://a.test/new")
        assert (state(f, "A"), record(f, "A").expenditure) == ("INACTIVE", 2)


def test_a_queue_may_hand_out_more_when_a_uri_arrives() -> None:
    with memory(concurrency=2) as f:
        f.schedule_many(pages("A", 1))
        assert len(f.lease(5)) == 1
        assert state(f, "A") == "IN_PROCESS"
        f.schedule("https://a.test/new")
        assert state(f, "A") == "READY"
        assert len(f.lease(5)) == 1


def test_more_workers_activate_more_queues() -> None:
    with memory() as f:
        f.schedule_many(pages("ABC", 2))
        assert [lease.queue[0] for lease in f.lease(2)] == ["a", "b"]
        assert [state(f, host) for host in "ABC"] == ["IN_PROCESS", "IN_PROCESS", "INACTIVE"]


@pytest.mark.parametrize("count", [0, -1, -(1 << 63) - 1, 1 << 64, 10**30])
def test_a_call_may_ask_for_any_number(count: int) -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        assert len(f.lease(count)) == (2 if count > 0 else 0)
        f.check()


def test_a_call_activates_a_thousand_queues_at_most() -> None:
    with memory() as f:
        f.schedule_many(f"https://h{number}.test/" for number in range(1500))
        f.adjust(balance_replenish_amount=0)
        f.adjust(match="queue:h1499.test", balance_replenish_amount=5)
        assert f.lease(1) == []
        assert f.summary().queues["RETIRED"] == 1000
        assert f.next_ready_in() == 0.0
        assert one(f).queue == "h1499.test"


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_concurrency_in_one_queue(concurrency: int) -> None:
    with memory(concurrency=concurrency) as f:
        f.schedule_many(pages("A", 5))
        assert len(f.lease(9)) == concurrency
        assert state(f, "A") == "IN_PROCESS"


def test_what_is_out_reserves_the_balance() -> None:
    with memory(concurrency=3, balance_replenish_amount=4) as f:
        f.schedule_many(CrawlUri(url, cost=2) for url in pages("A", 5))
        leases = f.lease(9)
        assert len(leases) == 2
        f.finish(leases[0], Outcome.SUCCESS)
        assert (state(f, "A"), f.lease(1)) == ("IN_PROCESS", [])
        f.finish(leases[1], Outcome.SUCCESS)
        assert state(f, "A") == "INACTIVE"


@pytest.mark.parametrize(("retire_when", "number"), [("exceeded", 3), ("reached", 2)])
def test_what_is_out_reserves_the_total_budget(retire_when: str, number: int) -> None:
    with memory(concurrency=5, queue_total_budget=2, retire_when=retire_when) as f:
        f.schedule_many(pages("A", 9))
        leases = f.lease(9)
        assert len(leases) == number
        for lease in leases:
            f.finish(lease, Outcome.SUCCESS)
        assert (state(f, "A"), record(f, "A").expenditure) == ("RETIRED", number)


@pytest.mark.parametrize(("first", "then", "number"), [(2, -1, 1), (-1, 1, 0)])
def test_a_budget_changed_while_a_queue_rests_counts_when_it_wakes(first: int, then: int, number: int) -> None:
    clock = ManualClock(START)
    frontier = memory(
        clock, polite=True, concurrency=2, hold_queues=False, queue_total_budget=first, retire_when="reached"
    )
    frontier.schedule_many(pages("A", 5))
    done, slow = frontier.lease(2)
    frontier.finish(done)
    assert state(frontier, "A") == "SNOOZED"
    frontier.adjust(queue_total_budget=then)
    clock.advance(3.0)
    assert len(frontier.lease(5)) == number
    assert state(frontier, "A") == "IN_PROCESS"
    frontier.finish(slow)
    assert state(frontier, "A") == ("SNOOZED" if number else "RETIRED")
    frontier.check()


@pytest.mark.parametrize("budget", [{"queue_total_budget": 0}, {"balance_replenish_amount": 0}])
def test_a_queue_retired_on_its_turn_goes_on_with_the_same_uri(budget: dict[str, Any]) -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("AB", 20))
        f.finish_many(f.lease(2))
        f.finish_many(f.lease(2))
        f.adjust(**budget)
        assert f.lease(2) == []
        assert (state(f, "A"), state(f, "B")) == ("RETIRED", "RETIRED")
        f.adjust(queue_total_budget=-1, balance_replenish_amount=10)
        assert paths(f.lease(2)) == ["2", "2"]
        f.check()


def replace_first(f: Frontier, value: bytes | None) -> None:
    """Give the first pending record another value, or delete it."""
    env = kernel(f).tables.env
    key = next(iter(env.view().items(PENDING)))[0]
    if value is None:
        env.txn.delete(key, db=env.db[PENDING])
    else:
        env.txn.put(key, value, db=env.db[PENDING])


def test_a_uri_whose_bytes_are_damaged_goes_out_as_it_is_reported() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
        replace_first(f, b"\xff/\xe9")
        assert one(f).uri.url == "https://a.test/\xe9"


def test_an_empty_record_is_damage() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
        replace_first(f, b"")
        with pytest.raises(CorruptFrontier):
            f.lease()


@pytest.mark.parametrize("overrides", [[], [{"match": "host:a.test", "set": {"precedence": 2}}]])
def test_a_queue_that_holds_less_than_it_counts_is_damage(overrides: list[dict[str, Any]]) -> None:
    with memory(overrides=overrides) as f:
        f.schedule_many(pages("A", 1))
        replace_first(f, None)
        with pytest.raises(CorruptFrontier):
            f.lease()


def test_a_retired_queue_stays_retired_even_when_empty() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        f.retire("a.test")
        f.finish(lease, Outcome.SUCCESS)
        assert (state(f, "A"), record(f, "A").queued, record(f, "A").expenditure) == ("RETIRED", 0, 1)


def test_over_the_total_budget_comes_before_empty() -> None:
    with memory(queue_total_budget=1, retire_when="reached") as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        assert state(f, "A") == "RETIRED"


def test_empty_comes_before_depleted() -> None:
    with memory(balance_replenish_amount=1) as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        assert state(f, "A") == "EXHAUSTED"


def test_depleted_comes_before_snoozed_and_politeness_holds() -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True, balance_replenish_amount=1) as f:
        f.schedule_many(pages("A", 2))
        assert crawl(f) == "A"
        assert state(f, "A") == "SNOOZED", "activated by the next lease, but too early to be fetched"
        assert record(f, "A").balance == 1
        clock.advance(3.0)
        assert crawl(f) == "A"


def test_no_debt_is_carried_over() -> None:
    with memory(balance_replenish_amount=3) as f:
        f.schedule_many(CrawlUri(url, cost=5) for url in pages("A", 3))
        assert crawl(f, 1) == "A"
        assert (state(f, "A"), record(f, "A").balance <= 0) == ("INACTIVE", True)
        lease = one(f)
        assert record(f, "A").balance == 3
        f.finish(lease, Outcome.DEFERRED)
        assert state(f, "A") == "READY"


def test_the_wake_time_is_never_set_back() -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True, concurrency=2) as f:
        f.schedule_many(pages("A", 3))
        first, second = f.lease(2)
        f.finish(first, Outcome.SUCCESS, fetch_seconds=5.0)
        assert record(f, "A").wake_time == START + 25.0
        f.finish(second, Outcome.SUCCESS, fetch_seconds=0.1)
        assert record(f, "A").wake_time == START + 25.0
        assert state(f, "A") == "SNOOZED"


def test_a_finish_can_retire_its_queue_until_settings_change() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.DISREGARDED, retire_queue=True)
        assert (state(f, "A"), record(f, "A").queued, f.summary().queued) == ("RETIRED", 2, 0)
        f.adjust(match="queue:other.test", precedence=1)
        assert state(f, "A") == "INACTIVE"


def test_leases_of_a_retired_queue_stay_valid() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.retire("a.test")
        assert crawl_state(f) == "RUNNING"
        f.finish(lease, Outcome.SUCCESS)
        assert record(f, "A").expenditure == 1
        assert crawl_state(f) == "FINISHED"


def test_a_queue_that_rests_by_a_clock_that_was_ahead_is_activated_with_a_rest_of_today(tmp_path: Path) -> None:
    clock = ManualClock(START + 1e8)
    with on_disk(tmp_path, clock, balance_replenish_amount=1, polite=True) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), fetch_seconds=1.0)
        assert state(f, "A") == "INACTIVE"
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, balance_replenish_amount=1, polite=True) as f:
        assert f.lease(1) == []
        queue = record(f, "A")
        assert queue.state is QueueState.SNOOZED
        assert queue.wake_time <= START + kernel(f).tables.longest_delay
        clock.advance(kernel(f).tables.longest_delay)
        assert one(f).uri.url == "https://a.test/1"


def test_a_lease_that_python_ends_wakes_no_more_queues_before_it_activates_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_DUE", 3)
    clock = ManualClock(START)
    with memory(clock, polite=True) as frontier:
        frontier.schedule_many(pages("abcdefghixyz", 3))
        frontier.finish_many(frontier.lease(9))
        clock.advance(30)
        assert [lease.queue[0] for lease in frontier.lease(1)] == ["a"]
        assert [lease.queue[0] for lease in frontier.lease(20)] == list("bcdefxyz")
        assert [lease.queue[0] for lease in frontier.lease(20)] == list("ghi")
        frontier.check()


def test_a_queue_with_a_lease_out_wakes_in_its_turn_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_DUE", 3)
    clock = ManualClock(START)
    with memory(clock, polite=True, concurrency=2) as frontier:
        frontier.schedule_many(pages("abcdefghi", 4))
        leases = frontier.lease(18)
        frontier.finish_many([*leases[::2], *(lease for lease in leases[1::2] if lease.queue[0] in "dg")])
        clock.advance(30)
        assert [lease.queue[0] for lease in frontier.lease(1)] == ["a"]
        assert [lease.queue[0] for lease in frontier.lease(20)] == list("bcdefd")
        assert [lease.queue[0] for lease in frontier.lease(20)] == list("ghig")
        frontier.check()


@pytest.mark.parametrize(
    "settings", [{"polite": True}, {"politeness": {"min_interval": 2.0}, "hold_queues": False}], ids=str
)
def test_a_rest_that_a_clock_ahead_has_stored_is_forgotten_whoever_snoozes_the_queue(settings: dict[str, Any]) -> None:
    with memory(ManualClock(START), **settings) as f:
        f.schedule_many(pages("ABCD", 3))
        first, second = f.lease(2)
        f.finish(first)
        for queue in map(kernel(f).tables.queues.find, ("a.test", "b.test", "c.test", "d.test")):
            assert queue is not None
            queue.overloaded_until = START + 1e9
        f.finish(second)
        (third,) = f.lease(1)
        snoozed = second if "polite" in settings else third
        found = f.queue(snoozed.queue)
        assert found is not None and (found.state, found.overloaded_until) == (QueueState.SNOOZED, 0)
