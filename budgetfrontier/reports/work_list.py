"""The work list of queues over budget: the spend of each if its total budget were raised."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.suggested_commands import one_more_session, replenish_amount
from budgetfrontier.rules.budgets import has_completed, is_over_total, rest_of_total
from budgetfrontier.storage.budgets_in_force import BudgetsInForce, PricesOf, affordable
from budgetfrontier.storage.view import View


class Raised(NamedTuple):
    """The spend of a queue with a total budget for one more session.

    `raise_to` is that budget, None if another limit holds the queue. `floor` is the cost of the present URIs that it
    would hand out, `ceiling` the rest of the budget for new ones, too, None without a maximum; a last URI that
    costs more than 1 may go beyond it. Both are 0 for a queue that has reached its limit of completed URLs.
    """

    raise_to: int | None
    floor: int
    ceiling: int | None


class WorkList:
    """The answers for the queues of a view."""

    def __init__(self, view: View) -> None:
        self._prices = PricesOf(view)
        self._budgets = BudgetsInForce(view)
        self._replenish = view.settings()[0].frontier.balance_replenish_amount

    def raised(self, queue: QueueRecord) -> Raised:
        """Return the spend of a queue after raising its budget. O(URIs that it would hand out)."""
        total, reached, raise_to = queue.total_budget, self._budgets.reached(queue), None
        if is_over_total(queue.expenditure, total, reached):
            session = replenish_amount(queue.balance_replenish_amount, self._replenish)
            total = raise_to = queue.expenditure + one_more_session(session, total)
        if has_completed(queue):
            return Raised(raise_to, 0, 0)
        _, floor, _ = affordable(self._prices(queue), queue, total, reached=reached)
        left = rest_of_total(queue.expenditure, total, reached)
        return Raised(raise_to, floor, None if left is None else max(left, floor))
