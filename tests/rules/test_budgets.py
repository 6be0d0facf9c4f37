"""The budgets of a queue."""

from __future__ import annotations

import pytest

from budgetfrontier.rules import budgets
from tests.rules.queues import queue, settings


@pytest.mark.parametrize(
    ("spent", "total", "reached", "over"),
    [
        (0, 0, True, True),
        (9, 10, True, False),
        (10, 10, True, True),
        (10, 10, False, False),
        (11, 10, False, True),
        (99, -1, True, False),
    ],
)
def test_a_total_budget_is_exceeded_or_reached(spent: int, total: int, reached: bool, over: bool) -> None:
    assert budgets.is_over_total(spent, total, reached) is over
    assert budgets.must_retire(queue(expenditure=spent, total_budget=total), reached) is over


def test_a_queue_without_means_must_retire() -> None:
    assert budgets.must_retire(queue(balance_replenish_amount=0), reached=False)
    assert not budgets.must_retire(queue(balance_replenish_amount=1), reached=False)


@pytest.mark.parametrize(
    ("completed", "limit", "has"), [(1, 1, True), (2, 3, False), (3, 3, True), (4, 3, True), (4, 0, False)]
)
def test_a_queue_must_retire_once_as_many_urls_are_completed_as_its_limit_allows(
    completed: int, limit: int, has: bool
) -> None:
    limited = queue(completed=completed, max_completed=limit)
    assert budgets.has_completed(limited) is has
    assert budgets.must_retire(limited, reached=False) is has


@pytest.mark.parametrize(
    ("own", "adjusted", "total"), [(None, False, 100), (None, True, 100), (7, False, 7), (0, False, 0), (7, True, 100)]
)
def test_a_queue_takes_the_budgets_of_a_uri_unless_crawlers_gave_it_one(
    own: int | None, adjusted: bool, total: int
) -> None:
    told = settings(balance_replenish_amount=4, queue_total_budget=100, total_adjusted=adjusted, precedence=9)
    taking = queue(own_budget=own, total_budget=1, precedence=2)
    budgets.take_budgets(taking, told, revision=6)
    assert (taking.balance_replenish_amount, taking.total_budget, taking.revision) == (4, total, 6)
    assert (taking.precedence, taking.balance) == (2, 5), "they are for the next activation"
