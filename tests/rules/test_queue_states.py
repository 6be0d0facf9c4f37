"""The states of a queue after whatever happens to it."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import QueueState
from budgetfrontier.rules import queue_states
from tests.rules.queues import EXHAUSTED, IN_PROCESS, INACTIVE, NOW, READY, RETIRED, SNOOZED, USUAL, queue


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


@pytest.mark.parametrize("fields", [{}, {"queued": 0}, {"state": INACTIVE}, {"balance": 0}, {"precedence": 9}])
def test_a_finish_that_asks_for_it_retires_its_queue_whatever_else_holds(fields: dict[str, Any]) -> None:
    assert queue_states.after_finish(queue(**fields), USUAL, NOW, best_waiting=5, retire=True) is RETIRED


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"state": RETIRED, "queued": 0, "balance": 0}, RETIRED),
        ({"state": INACTIVE, "queued": 0, "balance": 0}, EXHAUSTED),
        ({"state": INACTIVE, "balance": 0, "out": 1, "wake_time": NOW + 1}, INACTIVE),
        ({"balance": 0, "out": 1, "wake_time": NOW + 1}, IN_PROCESS),
        ({"balance": 0, "out": 0, "wake_time": NOW + 1}, INACTIVE),
        ({"balance": -1, "out": 0}, INACTIVE),
        ({"balance": 1, "out": 1, "wake_time": NOW + 1}, SNOOZED),
        ({"balance": 1, "out": 0, "wake_time": NOW}, READY),
    ],
)
def test_where_a_queue_goes_after_a_lease_was_lost(fields: dict[str, Any], state: QueueState) -> None:
    assert queue_states.after_lease_lost(queue(**fields), NOW) is state


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
    for fields, state in (
        ({"state": EXHAUSTED, "out": 0}, INACTIVE),
        ({"state": EXHAUSTED, "out": 0, "by_name": True}, RETIRED),
        ({"state": SNOOZED}, SNOOZED),
    ):
        assert queue_states.after_arrival(queue(**fields), USUAL, NOW, hold_queues=True) == (state, False)


def test_an_arrival_activates_what_was_empty_at_once_unless_queues_are_held() -> None:
    assert queue_states.after_arrival(queue(EXHAUSTED, out=0), USUAL, NOW, hold_queues=False) == (INACTIVE, True)
    for state in RETIRED, INACTIVE, SNOOZED, READY:
        assert queue_states.after_arrival(queue(state), USUAL, NOW, hold_queues=False) == (state, False)
    by_name = queue(EXHAUSTED, out=0, by_name=True)
    assert queue_states.after_arrival(by_name, USUAL, NOW, hold_queues=False) == (RETIRED, False)


@pytest.mark.parametrize("state", QueueState)
@pytest.mark.parametrize("queued", [0, 3])
@pytest.mark.parametrize("out", [0, 3])
def test_the_nearest_possible_state_is_possible(state: QueueState, queued: int, out: int) -> None:
    left = queue(state, queued=queued, out=min(out, queued))
    nearest = queue_states.nearest_possible(left, NOW)
    assert queue_states.is_possible(queue(nearest, queued=queued))
    assert nearest is state or not queue_states.is_possible(left) or state in (READY, IN_PROCESS)
