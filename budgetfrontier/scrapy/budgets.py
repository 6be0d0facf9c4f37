"""Budgets that spiders give to queues by `request.meta`."""

from __future__ import annotations

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.model import CrawlUri
from budgetfrontier.scrapy.conversion import BUDGET, Refused
from budgetfrontier.settings.policies import assignment


class Budgets:
    """Adjusts the total budget of a queue once for each amount: an adjustment is kept, and every one is looked at."""

    def __init__(self, frontier: Frontier, *, who: str) -> None:
        self._frontier, self._who = frontier, who
        self._assign = assignment(frontier.settings.frontier, None)
        self._set: dict[str, int] = {}

    def set(self, uri: CrawlUri, budget: object) -> None:
        """Give the queue of a URI this total budget. Raises Refused if it is no whole number from -1 on."""
        if type(budget) is not int or budget < -1:
            raise Refused(f"{BUDGET} is a whole number, not {budget!r}")
        queue = uri.queue or self._assign(uri)
        if self._set.get(queue) == budget:
            return
        record = self._frontier.queue(queue)
        if record is None or record.total_budget != budget:
            match = f"queue:{queue}"
            self._frontier.adjust(match=match, queue_total_budget=budget, reason="request.meta", who=self._who)
        self._set[queue] = budget
