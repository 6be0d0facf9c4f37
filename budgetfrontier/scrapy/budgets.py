"""Budgets of queues that spiders set in `request.meta`."""

from __future__ import annotations

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.model import CrawlUri
from budgetfrontier.scrapy.conversion import BUDGET, Refused


class QueueBudgets:
    """Total budgets of queues, adjusted only when they change: every adjustment is stored and slows later look-ups."""

    def __init__(self, frontier: Frontier, *, who: str) -> None:
        self._frontier, self._who = frontier, who
        self._set: dict[str, int] = {}

    def set(self, uri: CrawlUri, budget: object) -> None:
        """Set the total budget of the queue of a URI with a normalized URL.

        Raises Refused unless the budget is an integer >= -1, and ValueError and PolicyError if the URI has no queue.
        """
        if type(budget) is not int or budget < -1:
            raise Refused(f"{BUDGET} is a whole number, not {budget!r}")
        queue = self._frontier.queue_key(uri)
        if self._set.get(queue) == budget:
            return
        record = self._frontier.queue(queue)
        if record is None or record.total_budget != budget:
            match = f"queue:{queue}"
            self._frontier.adjust(match=match, queue_total_budget=budget, reason="request.meta", who=self._who)
        self._set[queue] = budget
