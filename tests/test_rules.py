"""The rules by themselves: turns and budgets of queues, waits, what becomes of a URI, crawl states."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from budgetfrontier import CrawlState, Outcome, QueueState
from budgetfrontier.model import QueueId, QueueRecord
from budgetfrontier.rules import (
    budgets,
    charges,
    crawl_states,
    queue_states,
    uri_order,
    uri_outcomes,
    wake_times,
)
from budgetfrontier.rules.uri_outcomes import Fate
from budgetfrontier.settings.overrides import Effective, QueueSettings
from budgetfrontier.settings.schema import FrontierSettings

NOW = 1000.0
READY, IN_PROCESS, SNOOZED = QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED
INACTIVE, RETIRED, EXHAUSTED = QueueState.INACTIVE, QueueState.RETIRED, QueueState.EXHAUSTED
USUAL = Effective(FrontierSettings(), []).base


def settings(**changes: Any) -> QueueSettings:
    return msgspec.structs.replace(USUAL, **changes)


def queue(state: QueueState = IN_PROCESS, **fields: Any) -> QueueRecord:
    """A queue that could go on: three URIs, one of them out, a balance."""
    usual = {"queued": 3, "out": 1, "balance": 5, "balance_replenish_amount": 10, "total_budget": 100}
    return QueueRecord("a.test", QueueId(1), state=state, **(usual | fields))


@pytest.mark.parametrize(
    ("spent", "total", "reached", "over"),
    [(9, 10, True, False), (10, 10, True, True), (10, 10, False, False), (11, 10, False, True), (99, -1, True, False)],
)
def test_a_total_budget_is_exceeded_or_reached(spent: int, total: int, reached: bool, over: bool) -> None:
    assert budgets.is_over_total(spent, total, reached) is over
    assert budgets.must_retire(queue(expenditure=spent, total_budget=total), reached) is over


def test_a_queue_without_means_must_retire() -> None:
    assert budgets.must_retire(queue(balance_replenish_amount=0), reached=False)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        # Each line would also be what the lines below it say: the order of the questions is the rule.
        ({"state": RETIRED, "expenditure": 200, "queued": 0}, RETIRED),
        ({"expenditure": 101, "queued": 0}, RETIRED),
        ({"state": INACTIVE, "queued": 0}, EXHAUSTED),
        ({"state": INACTIVE, "balance": -1, "wake_time": NOW + 1}, INACTIVE),
        ({"balance": 0, "out": 0, "wake_time": NOW + 1}, INACTIVE),
        ({"balance": 0, "out": 1, "wake_time": NOW + 1}, IN_PROCESS),
        ({"precedence": 9, "wake_time": NOW + 1}, INACTIVE),
        ({"wake_time": NOW + 1}, SNOOZED),
        ({"out": 0}, READY),
        ({}, IN_PROCESS),
    ],
)
def test_where_a_queue_goes_after_a_finish(fields: dict[str, Any], state: QueueState) -> None:
    assert queue_states.after_finish(queue(**fields), USUAL, NOW, best_waiting=5) is state


def test_a_queue_that_yields_to_a_better_precedence_forfeits_its_balance() -> None:
    yields, stays = queue(precedence=9, out=0), queue(precedence=5, out=0)
    assert (queue_states.after_finish(yields, USUAL, NOW, 5), yields.balance) == (INACTIVE, 0)
    assert (queue_states.after_finish(stays, USUAL, NOW, 5), stays.balance) == (READY, 5)


def test_what_is_out_reserves_its_cost_and_what_has_landed_makes_room() -> None:
    assert not queue_states.may_lease(queue(), 1, reached=False)
    assert queue_states.may_lease(queue(), 2, reached=False)
    assert not queue_states.may_lease(queue(reserved=5), 2, reached=False)
    assert not queue_states.may_lease(queue(reserved=4, expenditure=97), 2, reached=False)
    assert not queue_states.may_lease(queue(queued=1), 2, reached=False)
    assert queue_states.may_lease(queue(landed=1), 1, reached=False)


def test_an_activation_carries_over_neither_debt_nor_credit() -> None:
    for balance in (-7, 7):
        activated = queue(INACTIVE, out=0, balance=balance)
        assert (queue_states.on_activation(activated, USUAL, NOW), activated.balance) == (READY, 10)
    assert queue_states.on_activation(queue(INACTIVE, out=0, wake_time=NOW + 1), USUAL, NOW) is SNOOZED
    assert queue_states.on_activation(queue(INACTIVE, out=0, expenditure=101), USUAL, NOW) is RETIRED


def test_an_arrival_wakes_what_was_empty_unless_it_was_retired_by_name() -> None:
    assert queue_states.after_arrival(queue(EXHAUSTED, out=0), USUAL, NOW) is INACTIVE
    assert queue_states.after_arrival(queue(EXHAUSTED, out=0, by_name=True), USUAL, NOW) is RETIRED
    assert queue_states.after_arrival(queue(SNOOZED), USUAL, NOW) is SNOOZED


@pytest.mark.parametrize("state", QueueState)
@pytest.mark.parametrize("queued", [0, 3])
@pytest.mark.parametrize("out", [0, 3])
def test_the_nearest_possible_state_is_possible(state: QueueState, queued: int, out: int) -> None:
    left = queue(state, queued=queued, out=min(out, queued))
    nearest = queue_states.nearest_possible(left, NOW)
    assert queue_states.is_possible(queue(nearest, queued=queued))
    assert nearest is state or not queue_states.is_possible(left) or state in (READY, IN_PROCESS)


def test_a_charge_goes_to_balance_and_expenditure_and_one_from_elsewhere_to_expenditure_alone() -> None:
    charged = queue()
    charges.charge(charged, 2, 1)
    assert (charged.balance, charged.expenditure, charged.penalties, charged.charges) == (2, 3, 1, 1)
    charges.charge_seen(charged, 4)
    assert (charged.balance, charged.expenditure, charged.charges, charged.average_cost) == (2, 7, 2, 3.0)


@pytest.mark.parametrize(
    ("outcome", "attempt", "retry_uri", "expected"),
    [
        (Outcome.SUCCESS, 1, False, Fate.REMOVED),
        (Outcome.FAILURE, 1, False, Fate.REMOVED),
        (Outcome.DISREGARDED, 1, False, Fate.REMOVED),
        (Outcome.DEFERRED, 9, False, Fate.KEPT),
        (Outcome.DEAD, 1, False, Fate.DEAD),
        (Outcome.RETRY, 2, False, Fate.KEPT),
        (Outcome.RETRY, 2, True, Fate.DELAYED),
        (Outcome.RETRY, 3, True, Fate.DEAD),
    ],
)
def test_what_becomes_of_a_uri(outcome: Outcome, attempt: int, retry_uri: bool, expected: Fate) -> None:
    assert uri_outcomes.fate(outcome, attempt, settings(max_retries=2, retry_uri=retry_uri), delay=60.0) is expected


def test_a_retry_lengthens_the_wait_of_its_queue_unless_only_its_uri_waits() -> None:
    queues, uris = settings(max_retries=2, retry_delay=60.0, retry_uri=False), settings(retry_uri=True)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, None) == (60.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, queues, 5.0, 90.0) == (90.0, True)
    assert wake_times.wait_after(Outcome.RETRY, 3, queues, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.RETRY, 1, uris, 5.0, None) == (5.0, False)
    assert wake_times.wait_after(Outcome.SUCCESS, 1, queues, 5.0, 7.0) == (7.0, True)


def test_a_wake_time_is_clipped_unless_somebody_asked_for_it() -> None:
    ahead, asked_for = queue(SNOOZED, wake_time=NOW + 1e9), queue(SNOOZED, wake_time=NOW + 1e9, block=NOW + 1e9)
    assert wake_times.clipped_wake_time(ahead, NOW + 60) == NOW + 60
    assert wake_times.clipped_wake_time(asked_for, NOW + 60) == NOW + 1e9
    assert wake_times.clipped_wake_time(queue(SNOOZED, wake_time=NOW + 5), NOW + 60) == NOW + 5


@pytest.mark.parametrize(
    ("state", "found", "expected"),
    [
        (CrawlState.NEW, {"scheduled": 0, "empty": True}, CrawlState.NEW),
        (CrawlState.NEW, {}, CrawlState.RUNNING),
        (CrawlState.RUNNING, {"empty": True}, CrawlState.FINISHED),
        (CrawlState.RUNNING, {"empty": True, "busy": True}, CrawlState.RUNNING),
        (CrawlState.RUNNING, {"empty": True, "pause_at_finish": True}, CrawlState.PAUSED),
        (CrawlState.PAUSING, {"leases": 1}, CrawlState.PAUSING),
        (CrawlState.PAUSING, {}, CrawlState.PAUSED),
        (CrawlState.PAUSED, {"empty": True}, CrawlState.PAUSED),
        (CrawlState.FINISHED, {}, CrawlState.RUNNING),
        (CrawlState.TERMINATED, {}, CrawlState.TERMINATED),
    ],
)
def test_the_state_of_the_crawl_follows(state: CrawlState, found: dict[str, Any], expected: CrawlState) -> None:
    usual = {"scheduled": 5, "leases": 0, "empty": False, "busy": False, "pause_at_finish": False}
    assert crawl_states.next_crawl_state(state, **(usual | found)) is expected


def test_what_waits_for_retired_queues_keeps_no_crawl_going() -> None:
    assert crawl_states.is_empty(queued=0, leases=0, future=3, future_retired=3)
    assert not crawl_states.is_empty(queued=0, leases=0, future=3, future_retired=2)
    assert not crawl_states.is_empty(queued=0, leases=1, future=0, future_retired=0)


def test_a_pause_waits_for_leases_and_a_terminated_crawl_never_goes_on() -> None:
    assert crawl_states.after_pause(CrawlState.RUNNING, 1) is CrawlState.PAUSING
    assert crawl_states.after_pause(CrawlState.RUNNING, 0) is CrawlState.PAUSED
    assert crawl_states.after_resume(CrawlState.PAUSED, 5) is CrawlState.RUNNING
    assert crawl_states.after_resume(CrawlState.PAUSED, 0) is CrawlState.NEW
    for after in (
        crawl_states.after_pause(CrawlState.TERMINATED, 0),
        crawl_states.after_resume(CrawlState.TERMINATED, 5),
    ):
        assert after is CrawlState.TERMINATED


def test_lifo_reverses_arrivals_and_the_ordinal_is_found_again() -> None:
    ordinals = [0, 1, 2, 1_000_000, 1 << 48]
    assert [uri_order.arrival(ordinal, lifo=False) for ordinal in ordinals] == ordinals
    reversed_ = [uri_order.arrival(ordinal, lifo=True) for ordinal in ordinals]
    assert reversed_ == sorted(reversed_, reverse=True)
    assert [uri_order.ordinal_of(arrival) for arrival in reversed_] == ordinals
    assert [
        ordinal ^ uri_order.arrival(0, lifo=True) for ordinal in ordinals
    ] == reversed_  # as admission writes it out
