"""The transition table, the charges, the budgets, the crawl's states, and the order inside a queue."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import SettingsError
from budgetfrontier.model import Directive
from tests.support import START, crawl, crawl_state, memory, one, pages, paths, record, state

# ---- arrivals


def test_a_held_queue_starts_inactive() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "INACTIVE"


def test_a_queue_not_held_is_active_at_once() -> None:
    with memory(hold_queues=False, balance_replenish_amount=7) as f:
        f.schedule_many(pages("A", 1))
        assert (state(f, "A"), record(f, "A").balance) == ("READY", 7)


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


# ---- turns


def test_ready_queues_take_turns() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "ABCABC"


def test_inactive_queues_wait_until_none_is_ready() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        assert crawl(f) == "AAABBB"


def test_more_workers_activate_more_queues() -> None:
    with memory() as f:
        f.schedule_many(pages("ABC", 2))
        assert [lease.queue[0] for lease in f.lease(2)] == ["a", "b"]
        assert [state(f, host) for host in "ABC"] == ["IN_PROCESS", "IN_PROCESS", "INACTIVE"]


def test_the_best_precedence_is_activated_first() -> None:
    overrides = [
        {"match": "queue:b.test", "set": {"precedence": 1}},
        {"match": "queue:c.test", "set": {"precedence": 2}},
    ]
    with memory(overrides=overrides) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "BBCCAA"


def test_a_call_activates_a_thousand_queues_at_most() -> None:
    with memory() as f:
        f.schedule_many(f"https://h{number}.test/" for number in range(1500))
        f.adjust(balance_replenish_amount=0)
        f.adjust(match="queue:h1499.test", balance_replenish_amount=5)
        assert f.lease(1) == []
        assert f.summary().queues["RETIRED"] == 1000
        assert f.next_ready_in() == 0.0
        assert one(f).queue == "h1499.test"


def test_snoozed_queues_come_back_by_wake_time_and_behind_the_ready() -> None:
    clock = ManualClock(START)
    with memory(clock, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 1))
        f.snooze("a.test", until=START + 20)
        f.snooze("b.test", until=START + 10)
        f.snooze("d.test", until=START + 20)
        clock.advance(30)
        assert crawl(f) == "CBAD"


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


# ---- the finish, in its order


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


def test_discovered_uris_are_scheduled_first() -> None:
    with memory() as f:
        f.schedule("https://a.test/0")
        lease = one(f)
        f.finish(lease, Outcome.SUCCESS, discovered=["https://a.test/1", "https://b.test/", "not a url"])
        assert (state(f, "A"), state(f, "B")) == ("READY", "INACTIVE")
        child = one(f)
        assert (child.uri.url, child.uri.via, child.uri.hops) == ("https://a.test/1", "https://a.test/0", "L")


def test_a_finish_can_retire_its_queue_until_settings_change() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.DISREGARDED, retire_queue=True)
        assert (state(f, "A"), record(f, "A").queued, f.summary().queued) == ("RETIRED", 2, 0)
        f.adjust(match="queue:other.test", precedence=1)
        assert state(f, "A") == "INACTIVE"


# ---- the operator


def test_retiring_by_name_outlives_a_change_of_settings() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        assert f.retire("a.test", reason="a trap", who="me")
        assert not f.retire("unknown.test")
        f.adjust(queue_total_budget=1000)
        assert state(f, "A") == "RETIRED"
        assert crawl(f) == "BB"
        assert crawl_state(f) == "FINISHED"
        assert f.unretire("a.test")
        assert (state(f, "A"), f.state) == ("INACTIVE", CrawlState.RUNNING)
        assert crawl(f) == "AA"


def test_an_empty_queue_is_unretired_to_exhausted() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        f.retire("a.test")
        assert state(f, "A") == "RETIRED"
        f.unretire("a.test")
        assert state(f, "A") == "EXHAUSTED"


def test_leases_of_a_retired_queue_stay_valid() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.retire("a.test")
        assert crawl_state(f) == "RUNNING"
        f.finish(lease, Outcome.SUCCESS)
        assert record(f, "A").expenditure == 1
        assert crawl_state(f) == "FINISHED"


def test_a_change_revives_in_the_order_of_retirement() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("ABC", 2))
        f.retire("b.test")
        assert crawl(f) == "AC"
        f.schedule_many(pages("D", 2))
        f.unretire("b.test")
        f.adjust(queue_total_budget=5)
        assert crawl(f) == "DDBBAC"


def test_a_change_exhausts_the_empty_retired() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        assert state(f, "A") == "RETIRED"
        f.adjust(queue_total_budget=5)
        assert state(f, "A") == "EXHAUSTED"


def test_a_changed_total_counts_at_once_and_a_changed_replenish_amount_later() -> None:
    with memory(balance_replenish_amount=4) as f:
        f.schedule_many(pages("A", 20))
        assert crawl(f, 1) == "A"
        f.adjust(balance_replenish_amount=10)
        assert record(f, "A").balance == 3
        assert crawl(f, 3) == "AAA"
        assert crawl(f, 1) == "A"
        assert record(f, "A").balance == 9
        f.adjust(queue_total_budget=4)
        assert crawl(f) == ""
        assert state(f, "A") == "RETIRED"


def test_a_dry_run_changes_nothing() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 4))
        assert crawl(f) == "AABB"
        told = f.adjust(match="queue:a.test", queue_total_budget=5, dry_run=True)
        assert "a.test" in told.revived
        assert [state(f, host) for host in "AB"] == ["RETIRED", "RETIRED"]


@pytest.mark.parametrize("wrong", [{"queue_total_budgte": 1}, {"queue_total_budget": "much"}, {"match": "what:ever"}])
def test_a_wrong_adjustment_changes_nothing(wrong: dict[str, Any]) -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 4))
        assert crawl(f) == "A"
        with pytest.raises(SettingsError):
            f.adjust(**{"queue_total_budget": 9, **wrong})
        assert state(f, "A") == "RETIRED"
        f.check()


def test_snooze_and_wake() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("AB", 2))
        assert f.snooze("a.test", until=START + 100)
        assert not f.snooze("unknown.test", until=START + 100)
        assert crawl(f) == "BB"
        assert state(f, "A") == "SNOOZED"
        assert f.next_ready_in() == pytest.approx(100)
        assert f.wake("a.test")
        assert crawl(f) == "AA"


def test_deleting_is_free() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 4))
        assert f.delete(queue="a.*", pattern="/[01]$") == 2
        assert (record(f, "A").queued, f.summary().queued) == (2, 6)
        assert f.delete(queue="a.test") == 2
        assert (state(f, "A"), f.summary().queued, f.summary().expenditure) == ("EXHAUSTED", 4, 0)
        assert f.schedule("https://a.test/0").value == "DUPLICATE"
        assert f.delete(pattern=".") == 4
        assert crawl_state(f) == "FINISHED"
        f.check()


# ---- charges


@pytest.mark.parametrize(
    ("outcome", "charge", "queued", "counter", "errors"),
    [
        (Outcome.SUCCESS, 7, 1, "succeeded", 0),
        (Outcome.FAILURE, 107, 1, "failed", 1),
        (Outcome.RETRY, 7, 2, "retried", 0),
        (Outcome.DEFERRED, 0, 2, "deferred", 0),
        (Outcome.DISREGARDED, 0, 1, "disregarded", 0),
        (Outcome.DEAD, 7, 1, "dead", 1),
    ],
)
def test_charges(outcome: Outcome, charge: int, queued: int, counter: str, errors: int) -> None:
    with memory(error_penalty_amount=100, balance_replenish_amount=500, retry={"delay": 0.0}) as f:
        f.schedule_many(CrawlUri(url, cost=7) for url in pages("A", 2))
        f.finish(one(f), outcome, reason="because")
        queue = record(f, "A")
        assert (queue.expenditure, queue.balance, queue.queued) == (charge, 500 - charge, queued)
        assert queue.errors == errors
        assert queue.average_cost == (7.0 if charge else 0.0)
        assert (f.summary()[counter], f.summary().expenditure) == (1, charge)
        f.check()


def test_every_retry_is_charged_until_the_uri_is_dead() -> None:
    with memory(error_penalty_amount=100, retry={"max_retries": 2, "delay": 0.0}) as f:
        f.schedule_many(pages("A", 1))
        attempts = []
        while leases := f.lease(1):
            attempts.append(leases[0].attempt)
            f.finish(leases[0], Outcome.RETRY, reason="timeout")
        assert attempts == [1, 2, 3]
        assert record(f, "A").expenditure == 3
        (letter,) = f.dead_letters()
        assert (letter.uri.url, letter.reason, letter.queue) == ("https://a.test/0", "timeout", "a.test")


def test_a_retried_uri_keeps_its_place() -> None:
    with memory(retry={"delay": 0.0}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY)
        assert one(f).uri.url == "https://a.test/0"


def test_the_zero_policy_spends_only_penalties() -> None:
    with memory(cost_policy="zero", error_penalty_amount=5) as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.FAILURE)
        assert crawl(f) == "AA"
        assert record(f, "A").expenditure == 5


def test_a_cost_is_fixed_when_the_uri_is_scheduled() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        f.adjust(cost_policy="zero")
        f.schedule_many(pages("A", 1, first=1))
        costs = []
        while leases := f.lease(1):
            costs.append(leases[0].cost)
            f.finish(leases[0], Outcome.SUCCESS)
        assert costs == [0, 1]


# ---- budgets and their source


def test_later_overrides_win_setting_by_setting() -> None:
    overrides = [
        {"match": "*", "set": {"queue_total_budget": 50, "balance_replenish_amount": 5}},
        {"match": "domain:a.test", "set": {"queue_total_budget": 60}},
        {"match": "surt:(test,a,www,", "set": {"precedence": 1}},
    ]
    with memory(overrides=overrides, hold_queues=False) as f:
        f.schedule_many(["https://www.a.test/", "https://b.test/"])
        first, second = f.queue("www.a.test"), f.queue("b.test")
        assert first is not None and second is not None
        assert (first.total_budget, first.balance_replenish_amount, first.precedence) == (60, 5, 1)
        assert (second.total_budget, second.balance_replenish_amount, second.precedence) == (50, 5, 3)


def test_a_queue_takes_the_values_of_the_uri_placed_last_and_of_its_head_at_activation() -> None:
    overrides = [{"match": "regex:/cheap", "set": {"queue_total_budget": 10}}]
    with memory(overrides=overrides) as f:
        f.schedule("https://a.test/head")
        assert record(f, "A").total_budget == -1
        f.schedule("https://a.test/cheap")
        assert record(f, "A").total_budget == 10
        lease = one(f)
        assert record(f, "A").total_budget == -1
        f.finish(lease, Outcome.SUCCESS)


# ---- the states of a crawl


def test_a_crawl_is_new_then_running_then_finished_then_running() -> None:
    with memory() as f:
        assert crawl_state(f) == "NEW"
        assert f.lease(1) == []
        f.schedule("no url")
        assert crawl_state(f) == "NEW"
        f.schedule_many(pages("A", 1))
        assert crawl_state(f) == "RUNNING"
        assert crawl(f) == "A"
        assert crawl_state(f) == "FINISHED"
        assert f.next_ready_in() is None
        f.schedule_many(pages("A", 1, first=1))
        assert crawl_state(f) == "RUNNING"


def test_pausing_waits_for_the_leases_that_are_out() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        lease = one(f)
        assert str(f.pause()) == "PAUSING"
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS)
        assert crawl_state(f) == "PAUSED"
        f.schedule_many(pages("C", 1))
        f.adjust(queue_total_budget=50)
        assert (f.state, f.lease(1)) == (CrawlState.PAUSED, [])
        assert f.summary().pause_reason == "operator"
        assert str(f.resume()) == "RUNNING"
        assert f.summary().pause_reason is None
        assert crawl(f) == "ABBC"


def test_terminated_is_for_good() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        assert str(f.terminate()) == "TERMINATED"
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS)
        assert str(f.resume()) == "TERMINATED"
        assert f.lease(1) == []


def test_what_is_scheduled_for_later_keeps_a_crawl_running() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule(CrawlUri("https://a.test/", not_before=START + 50))
        assert (f.state, f.summary().future, f.summary().queued) == (CrawlState.RUNNING, 1, 0)
        assert f.lease(1) == []
        assert f.next_ready_in() == pytest.approx(50)
        clock.advance(50)
        assert crawl(f) == "A"
        assert crawl_state(f) == "FINISHED"


def test_what_is_scheduled_later_for_a_retired_queue_does_not() -> None:
    with memory() as f:
        f.schedule("https://a.test/1")
        f.schedule(CrawlUri("https://a.test/2", not_before=START + 50))
        f.retire("a.test")
        assert crawl_state(f) == "FINISHED"
        assert f.lease(1) == []
        assert f.next_ready_in() is None


# ---- the order inside a queue


@pytest.mark.parametrize(("order", "expected"), [("fifo", list("pqmshcdabx")), ("lifo", list("pqmshcdbax"))])
def test_the_order_inside_a_queue(order: str, expected: list[str]) -> None:
    with memory(order=order) as f:
        uris: dict[str, dict[str, Any]] = {
            "x": {"cost": 9},
            "a": {},
            "b": {},
            "c": {"priority": 5, "cost": 3},
            "d": {"priority": 5, "cost": 4},
            "h": {"directive": Directive.MEDIUM, "priority": -1},
            "s": {"directive": Directive.MEDIUM},
            "m": {"directive": Directive.HIGH, "cost": 99},
            "q": {"directive": Directive.HIGHEST, "cost": 2},
            "p": {"directive": Directive.HIGHEST},
        }
        for name, options in uris.items():
            f.schedule(CrawlUri(f"https://a.test/{name}", **options))
        leases = []
        while given := f.lease(1):
            leases += given
            f.finish(given[0], Outcome.SUCCESS)
        assert paths(leases) == expected
