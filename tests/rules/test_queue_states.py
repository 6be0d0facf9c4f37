"""The states of a queue after whatever happens to it."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import QueueState
from budgetfrontier.rules import queue_states
from budgetfrontier.settings.overrides import QueueSettings
from tests.rules.queues import EXHAUSTED, IN_PROCESS, INACTIVE, NOW, READY, RETIRED, SNOOZED, USUAL, queue, settings


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


@pytest.mark.parametrize(
    ("fields", "concurrency", "may"),
    [
        ({"out": 0, "queued": 1, "balance": -1}, 1, True),  # the first of a turn: whether it has a turn is asked before
        ({"out": 0, "queued": 0}, 1, False),
        ({"out": 0, "queued": 1, "landed": 0}, 0, True),
        ({"balance": 1, "reserved": 0}, 2, True),
        ({"balance": 1, "reserved": 1}, 2, False),
        ({"queued": 2}, 2, True),
        ({"out": 2, "landed": 1}, 2, True),
        ({"out": 2, "landed": 0}, 2, False),
        ({"reserved": 4, "expenditure": 96}, 2, True),
        ({"reserved": 4, "expenditure": 97}, 2, False),
        ({"total_budget": 0}, 2, True),  # not exceeded
        ({"total_budget": 0, "reserved": 1}, 2, False),
        ({"total_budget": -1, "expenditure": 1000}, 2, True),
    ],
)
def test_one_more_uri_goes_out_while_budgets_and_concurrency_allow_it(
    fields: dict[str, Any], concurrency: int, may: bool
) -> None:
    assert queue_states.may_lease(queue(**fields), concurrency, reached=False) is may


def test_what_is_out_may_reach_a_total_budget_unless_reaching_it_retires() -> None:
    one = queue(reserved=4, expenditure=96)
    assert (queue_states.may_lease(one, 2, reached=False), queue_states.may_lease(one, 2, reached=True)) == (
        True,
        False,
    )


LATER: dict[str, Any] = {"wake_time": NOW + 1}
TWO_AT_ONCE = settings(per_queue_concurrency=2)


@pytest.mark.parametrize(
    ("fields", "chosen", "state"),
    [
        ({}, USUAL, IN_PROCESS),
        (LATER, USUAL, IN_PROCESS),
        ({"landed": 1}, USUAL, READY),
        ({"landed": 1, **LATER}, USUAL, SNOOZED),
        ({}, TWO_AT_ONCE, READY),
        (LATER, TWO_AT_ONCE, SNOOZED),
        ({"wake_time": NOW}, TWO_AT_ONCE, READY),
        ({"out": 0, **LATER}, USUAL, SNOOZED),
        ({"out": 0, "queued": 0}, USUAL, READY),
    ],
)
def test_how_an_active_queue_goes_on(fields: dict[str, Any], chosen: QueueSettings, state: QueueState) -> None:
    assert queue_states.after_turn(queue(**fields), chosen, NOW) is state
    for before in IN_PROCESS, READY:
        assert queue_states.after_landing(queue(before, **fields), chosen, NOW) is state
    for before in SNOOZED, INACTIVE, RETIRED, EXHAUSTED:
        assert queue_states.after_landing(queue(before, **fields), chosen, NOW) is before
    assert queue_states.after_arrival(queue(**fields), chosen, NOW, hold_queues=False) == (state, False)
    woken = queue_states.after_waking(queue(SNOOZED, **fields), chosen)
    assert woken is (IN_PROCESS if state is IN_PROCESS else READY)


def test_reaching_a_total_budget_keeps_an_active_queue_waiting_for_what_is_out() -> None:
    reaches = settings(per_queue_concurrency=2, reached=True)
    one: dict[str, Any] = {"reserved": 4, "expenditure": 96}
    for chosen, state in (TWO_AT_ONCE, READY), (reaches, IN_PROCESS):
        assert queue_states.after_turn(queue(**one), chosen, NOW) is state
        assert queue_states.after_waking(queue(SNOOZED, **one), chosen) is state


@pytest.mark.parametrize(
    ("fields", "chosen", "state"),
    [
        ({"out": 1}, USUAL, IN_PROCESS),
        ({"out": 1}, TWO_AT_ONCE, READY),
        ({"out": 1, **LATER}, USUAL, SNOOZED),
        ({"out": 0, "expenditure": 100}, USUAL, READY),
        ({"out": 0, "expenditure": 100}, settings(reached=True), RETIRED),
        ({"out": 1, "reserved": 4, "expenditure": 96}, settings(per_queue_concurrency=2, reached=True), IN_PROCESS),
    ],
)
def test_where_an_activation_leads(fields: dict[str, Any], chosen: QueueSettings, state: QueueState) -> None:
    activated = queue(INACTIVE, **fields)
    assert queue_states.on_activation(activated, chosen, NOW) is state
    assert activated.balance == (5 if state is RETIRED else 10)


@pytest.mark.parametrize(
    ("fields", "chosen", "state"),
    [
        ({"total_budget": 0}, USUAL, IN_PROCESS),
        ({"total_budget": 0, "expenditure": 1}, USUAL, RETIRED),
        ({"total_budget": -1, "expenditure": 1000}, USUAL, IN_PROCESS),
        ({"expenditure": 100}, USUAL, IN_PROCESS),
        ({"expenditure": 100}, settings(reached=True), RETIRED),
        ({"balance": 1, "out": 0}, USUAL, READY),
        ({"out": 0, "wake_time": NOW}, USUAL, READY),
        ({}, TWO_AT_ONCE, READY),
        ({"wake_time": NOW + 1}, TWO_AT_ONCE, SNOOZED),
    ],
)
def test_the_bounds_of_what_a_finish_leads_to(fields: dict[str, Any], chosen: QueueSettings, state: QueueState) -> None:
    assert queue_states.after_finish(queue(**fields), chosen, NOW, best_waiting=5) is state


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"queued": 0, "out": 0}, EXHAUSTED),
        ({"state": READY, "queued": 1}, IN_PROCESS),
        ({"state": READY, "queued": 2}, READY),
        ({"state": SNOOZED, "queued": 1}, SNOOZED),
        ({"state": INACTIVE, "queued": 1}, INACTIVE),
    ],
)
def test_where_a_queue_goes_after_a_deletion(fields: dict[str, Any], state: QueueState) -> None:
    assert queue_states.after_deletion(queue(**fields)) is state


def test_a_retired_queue_comes_back_as_its_uris_say_and_by_a_change_unless_retired_by_name() -> None:
    assert queue_states.after_unretirement(queue(RETIRED)) is INACTIVE
    assert queue_states.after_unretirement(queue(RETIRED, queued=0, out=0)) is EXHAUSTED
    assert queue_states.is_revived_by_change(queue(RETIRED))
    assert not queue_states.is_revived_by_change(queue(RETIRED, by_name=True))


def test_only_exhausted_and_retired_queues_are_without_uris() -> None:
    each = [(state, queued) for state in QueueState for queued in (0, 1)]
    possible = {one for one in each if queue_states.is_possible(queue(one[0], queued=one[1]))}
    assert possible == {(state, 1) for state in QueueState if state is not EXHAUSTED} | {(EXHAUSTED, 0), (RETIRED, 0)}


def test_the_nearest_possible_state_of_a_queue_whose_leases_are_gone_follows_its_wake_time() -> None:
    assert queue_states.nearest_possible(queue(IN_PROCESS, out=0, **LATER), NOW) is SNOOZED
    assert queue_states.nearest_possible(queue(IN_PROCESS, out=0, wake_time=NOW), NOW) is READY
    assert queue_states.nearest_possible(queue(EXHAUSTED, by_name=True), NOW) is RETIRED
