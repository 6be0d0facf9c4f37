"""The budgets of a queue."""

from __future__ import annotations

import pytest

from budgetfrontier.rules import budgets
from tests.rules.queues import queue


@pytest.mark.parametrize(
    ("spent", "total", "reached", "over"),
    [(9, 10, True, False), (10, 10, True, True), (10, 10, False, False), (11, 10, False, True), (99, -1, True, False)],
)
def test_a_total_budget_is_exceeded_or_reached(spent: int, total: int, reached: bool, over: bool) -> None:
    assert budgets.is_over_total(spent, total, reached) is over
    assert budgets.must_retire(queue(expenditure=spent, total_budget=total), reached) is over


def test_a_queue_without_means_must_retire() -> None:
    assert budgets.must_retire(queue(balance_replenish_amount=0), reached=False)
