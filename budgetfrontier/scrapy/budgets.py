"""Budgets of queues that spiders set in `request.meta`."""

from __future__ import annotations

from typing import Any, Protocol

from budgetfrontier.model import CrawlUri, QueueRecord
from budgetfrontier.scrapy.conversion import BUDGET, Refused


class _Frontier(Protocol):
    """The part of a frontier, local or remote, that has the budgets."""

    def queue_key(self, uri: CrawlUri) -> str: ...

    def queue(self, key: str) -> QueueRecord | None: ...

    def adjust(self, *, match: str, reason: str, who: str, **settings: Any) -> Any: ...


def checked_budget(budget: object) -> int:
    """Return the total budget of a queue. Raises Refused unless it is an integer >= -1."""
    if type(budget) is not int or budget < -1:
        raise Refused(f"{BUDGET} is a whole number, not {budget!r}")
    return budget


class QueueBudgets:
    """Total budgets of queues, adjusted only when they change: every adjustment is stored and slows later look-ups."""

    def __init__(self, frontier: _Frontier, *, who: str) -> None:
        self._frontier, self._who = frontier, who
        self._set: dict[str, int] = {}

    def set(self, uri: CrawlUri, budget: object) -> None:
        """Set the total budget of the queue of a URI with a normalized URL.

        Raises Refused unless the budget is an integer >= -1, and ValueError and PolicyError if the URI has no queue.
        """
        budget = checked_budget(budget)
        queue = self._frontier.queue_key(uri)
        if self._set.get(queue) == budget:
            return
        record = self._frontier.queue(queue)
        if record is None or record.total_budget != budget:
            match = f"queue:{queue}"
            self._frontier.adjust(match=match, queue_total_budget=budget, reason="request.meta", who=self._who)
        self._set[queue] = budget
