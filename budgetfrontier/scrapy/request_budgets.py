"""Budgets of queues that spiders set in `request.meta`."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.regulation import MOST_BUDGET
from budgetfrontier.scrapy.conversion import BUDGET, InvalidMeta


def wanted_budget(request: Any) -> int | None:
    """Return the total budget that a request asks for its queue, None if it asks for none. Raises InvalidMeta."""
    if BUDGET not in request.meta:
        return None
    budget = request.meta[BUDGET]
    if type(budget) is not int or not -1 <= budget <= MOST_BUDGET:
        raise InvalidMeta(f"{BUDGET} is a whole number, -1 for no maximum, not {budget!r}")
    return budget


def set_budget(frontier: Frontier, uri: CrawlUri, budget: int) -> None:
    """Set the total budget of the queue of a URI that was scheduled, unless an operator has adjusted it.

    Raises PolicyError.
    """
    frontier.regulate(frontier.queue_key(uri), total_budget=budget)
