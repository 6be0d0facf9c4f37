"""The budgets of queues by the settings now in force, which their records may not have yet."""

from __future__ import annotations

from budgetfrontier.model import QueueRecord
from budgetfrontier.rules.budgets import is_over_total, must_retire, total_of
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.store.head_urls import HeadUrls
from budgetfrontier.store.view import View

_OF_BUDGETS = frozenset(("balance_replenish_amount", "queue_total_budget", "retire_when"))
_PRICED = 100_000  # URIs of one queue that are added up


class BudgetsInForce:
    """The budgets that queues will have at their next turn, if their records do not have them yet."""

    def __init__(self, view: View) -> None:
        settings, adjustments = view.settings()
        of_settings = [o for o in settings.overrides if not _OF_BUDGETS.isdisjoint(o.set)]
        adjusted = [o for o in adjustments if not _OF_BUDGETS.isdisjoint(o.set)]
        ours = [*of_settings, *adjusted]
        self._same_limit = not any("retire_when" in o.set for o in ours)
        self._revision = view.counters().settings_revision
        self._by_key = all(parse_match(o.match).by_key for o in ours)
        self._effective = Effective(settings.frontier, of_settings, adjusted)
        self._heads = HeadUrls(view)

    def over_budget(self, queue: QueueRecord) -> bool:
        """Tell whether a queue holds URIs and is over budget: RETIRED for that, or retired on its next turn."""
        if queue.by_name or not queue.queued:
            return False
        self.show(queue)
        return must_retire(queue, self.reached(queue))

    def reached(self, queue: QueueRecord) -> bool:
        """Tell whether a queue is over its total budget as soon as that is spent: `retire_when: reached`."""
        if self._same_limit:
            return self._effective.base.reached
        return self._effective.for_uri(self._url(queue), queue.queue).reached

    def show(self, queue: QueueRecord) -> QueueRecord:
        """Set the budgets of a record to those in force for its head, and return it.

        Those of an empty queue are in force for the URI placed on it last, or are those it has if that is not known.
        """
        if queue.revision != self._revision:
            url = "http://none.invalid/" if self._by_key else self._url(queue)
            if url:
                settings = self._effective.for_uri(url, queue.queue)
                queue.balance_replenish_amount = settings.balance_replenish_amount
                queue.total_budget = total_of(queue, settings)
        return queue

    def _url(self, queue: QueueRecord) -> str:
        return self._heads.url(queue) or queue.last_enqueued


def affordable(view: View, queue: QueueRecord, total: int, *, reached: bool) -> tuple[int, int]:
    """Return how many of its URIs a queue hands out before it is empty or over a total budget, and their cost.

    O(those URIs), of which the first 100,000 are looked at.
    """
    uris = spent = 0
    for cost in view.costs(queue, _PRICED):
        if is_over_total(queue.expenditure + spent, total, reached):
            break
        uris += 1
        spent += cost
    return uris, spent
