"""The budgets of queues by the settings now in force, which their records may not have yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from math import inf

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.rules.budgets import must_retire, total_of
from budgetfrontier.settings import sheets, windows
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import Effective, QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.group_listing import GroupsInTurn
from budgetfrontier.storage.head_urls import NO_URL, HeadUrls
from budgetfrontier.storage.quota_use import QuotasInForce
from budgetfrontier.storage.records import expanded
from budgetfrontier.storage.uri_values import decode_uri, expand
from budgetfrontier.storage.view import View

_OF_BUDGETS = frozenset(("queue_total_budget", "retire_when", "balance_replenish_amount"))
_OF_DELAYS = frozenset(
    (
        "politeness.delay_factor",
        "politeness.min_delay",
        "politeness.max_delay",
        "politeness.jitter",
        "politeness.min_interval",
        "politeness.per_queue_concurrency",
        "backoff.delay",
        "backoff.factor",
        "backoff.max_delay",
        "backoff.forgive_after",
        "retry.max_retries",
        windows.NAME,
    )
)
_PRICED = 100_000  # URIs of one queue that are added up


class BudgetsInForce:
    """The budgets that queues will have at their next turn, if their records do not have them yet.

    A look-up takes about 2 us for each queue that had its last turn before a change of settings. Passes over all queues
    look up only those that they show.
    """

    def __init__(self, view: View, *, forecast: bool = False) -> None:
        """Read the settings; with `forecast`, those for `for_forecast` alone."""
        self._view = view
        settings, changes = view.settings()
        overrides, adjustments = sheets.layers(settings, changes)
        wanted = _OF_BUDGETS | _OF_DELAYS if forecast else _OF_BUDGETS
        of_settings = [o for o in overrides if not wanted.isdisjoint(o.set)]
        adjusted = [o for o in adjustments if not wanted.isdisjoint(o.set)]
        ours = [*of_settings, *adjusted]
        self._same_limit = not any("retire_when" in o.set for o in ours)
        self._revision = view.counters().settings_revision
        self._by_key = all(parse_match(o.match).by_key for o in ours)
        self._effective = Effective(settings.frontier, of_settings, adjusted)
        self._heads = HeadUrls(view)

    def over_budget(self, queue: QueueRecord) -> bool:
        """Return whether a queue holds URIs and is over budget: RETIRED for that, or retired on its next turn.

        A budget is its own, that of its group, or a quota with `quotas.force_retire`.
        """
        if queue.by_name or not queue.queued:
            return False
        self.show(queue)
        return must_retire(queue, self.reached(queue)) or self._is_held(queue)

    def _is_held(self, queue: QueueRecord) -> bool:
        """Return whether the group of a queue is over its total budget, or a quota that retires queues is used up."""
        quotas, groups = self._quotas, self._groups
        if (group := groups.of_queue(queue)) is not None and groups.rest(group) == -1:
            return True
        if not quotas.kinds:
            return False
        url, label = self._heads.subject(queue)
        uri = CrawlUri(url or NO_URL, source=label)
        return any(quotas.used_up(uri, queue)) and quotas.settings_of(uri, queue).force_retire

    @cached_property
    def _quotas(self) -> QuotasInForce:
        return QuotasInForce(self._view)

    @cached_property
    def _groups(self) -> GroupsInTurn:
        return GroupsInTurn(self._view)

    def reached(self, queue: QueueRecord) -> bool:
        """Return whether a queue is over its total budget as soon as that is spent: `retire_when: reached`."""
        if self._same_limit:
            return self._effective.base.reached
        url, label = self._subject(queue)
        return self._effective.for_one(url, queue.queue, label).reached

    def show(self, queue: QueueRecord) -> QueueRecord:
        """Set the budgets of a record to those in force for its head, and return it.

        Those of an empty queue are in force for the URI placed on it last, or are those it has if that is not known.
        """
        if queue.revision != self._revision:
            url, label = self._subject(queue)
            if url:
                self._take(queue, self._effective.for_one(url, queue.queue, label))
        return queue

    def complete(self, queue: QueueRecord) -> QueueRecord:
        """Set the budgets of a record of `View.compact_queues` as `show` does, expand its URLs, and return it."""
        return self.show(expanded(queue))

    def for_forecast(self, queue: QueueRecord) -> QueueSettings:
        """Set the budgets of a queue that holds URIs to those in force, and return these and the politeness in force
        for its head.
        """
        url, label = self._subject(queue)
        settings = self._effective.for_one(url or NO_URL, queue.queue, label)
        if queue.revision != self._revision:
            self._take(queue, settings)
        return settings

    def _take(self, queue: QueueRecord, settings: QueueSettings) -> None:
        queue.balance_replenish_amount = settings.balance_replenish_amount
        queue.total_budget = total_of(queue, settings)

    def _subject(self, queue: QueueRecord) -> tuple[str, str | None]:
        """Return the URL and the label by which the settings of a queue are looked up; "" if they are not known."""
        if self._by_key:
            return NO_URL, None
        url, label = self._heads.subject(queue)
        return url or expand(queue.last_enqueued, queue.queue), label


Price = tuple[int, bool]
"""The cost of a URI, and whether it is fetched: one that is out of the scope is disregarded, and costs nothing."""


class PricesOf:
    """The prices of the URIs that queues hold, in the order of their leases, the first 100,000 of each.

    `in_scope` returns whether the crawl would fetch a URI; without it, all are in scope.
    """

    def __init__(self, view: View, in_scope: Callable[[CrawlUri], bool] | None = None) -> None:
        self._in_scope = in_scope
        self._cursor = view.txn.cursor(view.db[keys.PENDING])

    def __call__(self, queue: QueueRecord) -> Iterator[Price]:
        """Return the prices of a queue's URIs, which are read as they are taken, until the next call."""
        number, cursor, in_scope = min(queue.queued, _PRICED), self._cursor, self._in_scope
        if not number or not cursor.set_range(keys.u32.pack(queue.id)):
            return iter(())
        if in_scope is None:
            return ((keys.cost_of(key), True) for key in islice(cursor.iternext(values=False), number))
        name, found = queue.queue, islice(cursor.iternext(), number)
        return ((keys.cost_of(key), in_scope(decode_uri(value, name))) for key, value in found)


def affordable(prices: Iterable[Price], queue: QueueRecord, total: int, *, reached: bool) -> tuple[int, int, int]:
    """Return the URIs, given by their prices, that a queue hands out before it is empty or over a total budget.

    Returns their number, their cost, and the number of those disregarded, which are not among them. O(those URIs).
    """
    uris = spent = disregarded = 0
    most = total - queue.expenditure - reached if total >= 0 else inf
    for cost, is_fetched in prices:
        if spent > most:
            break
        if is_fetched:
            uris += 1
            spent += cost
        else:
            disregarded += 1
    return uris, spent, disregarded
