"""The cost of a URI: given with it, or by the policy, within bounds."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.rules import charges
from tests.rules.queues import queue, settings


@pytest.mark.parametrize(("given", "cost"), [(0, 0), (7, 7), (-1, 0), (10**30, charges.MAX_COST), (True, 1)])
def test_a_cost_is_bounded(given: int, cost: int) -> None:
    assert charges.bounded_cost(given) == cost


def test_a_cost_given_with_a_uri_wins_over_the_policy() -> None:
    assert charges.given_cost(CrawlUri("https://a.test/", cost=-3)) == 0
    assert charges.given_cost(CrawlUri("https://a.test/", cost=7)) == 7
    assert charges.given_cost(CrawlUri("https://a.test/")) is None
    assert charges.given_cost(None) is None


def test_a_cost_is_stored_in_32_bits() -> None:
    assert charges.bounded_cost(charges.MAX_COST + 1) == charges.MAX_COST == 2**32 - 1


def test_a_charge_goes_to_balance_and_expenditure_and_one_from_elsewhere_to_expenditure_alone() -> None:
    charged = queue()
    charges.charge(charged, 2, 1)
    assert (charged.balance, charged.expenditure, charged.penalties, charged.charges) == (2, 3, 1, 1)
    charges.charge_seen(charged, 4)
    assert (charged.balance, charged.expenditure, charged.charges, charged.average_cost) == (2, 7, 2, 3.0)


def test_charges_add_up_and_the_last_cost_is_without_its_penalty() -> None:
    charged = queue(balance=20)
    for cost, penalty in (4, 3), (2, 1):
        charges.charge(charged, cost, penalty)
    assert (charged.balance, charged.expenditure, charged.penalties, charged.charges, charged.last_cost) == (
        10,
        10,
        4,
        2,
        2,
    )


def test_only_a_failure_has_a_penalty() -> None:
    chosen = settings(error_penalty_amount=7)
    assert {outcome: charges.penalty(outcome, chosen) for outcome in Outcome} == {
        outcome: 7 if outcome is Outcome.FAILURE else 0 for outcome in Outcome
    }
