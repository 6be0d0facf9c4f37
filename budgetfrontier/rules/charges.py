"""The cost of a URI, and the charge of an attempt for each outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.core.model import Outcome, QueueRecord

if TYPE_CHECKING:
    from budgetfrontier.core.model import CrawlUri
    from budgetfrontier.settings.overrides import QueueSettings

MAX_COST = (1 << 32) - 1
"""The largest cost that is stored."""

_FAILURE = Outcome.FAILURE
_CHARGED = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY, Outcome.DEAD))


def bounded_cost(cost: int) -> int:
    """Return a cost, given with a URI or by the policy, as it is fixed when the URI is scheduled: 0 to MAX_COST."""
    return min(max(cost, 0), MAX_COST)


def given_cost(uri: CrawlUri | None) -> int | None:
    """Return the cost given with a URI, which wins over the cost policy; None if the policy is asked."""
    return None if uri is None or uri.cost is None else bounded_cost(uri.cost)


def is_charged(outcome: Outcome) -> bool:
    """Return whether an outcome is charged: an attempt was really made. DEFERRED and DISREGARDED cost nothing."""
    return outcome in _CHARGED


def penalty(outcome: Outcome, settings: QueueSettings) -> int:
    """Return the charge of an attempt beyond its cost."""
    return settings.error_penalty_amount if outcome is _FAILURE else 0


def charge(queue: QueueRecord, cost: int, penalty: int) -> None:
    """Charge one attempt to the activity balance and the total expenditure."""
    queue.balance -= cost + penalty
    queue.expenditure += cost + penalty
    queue.penalties += penalty
    queue.charges += 1
    queue.last_cost = cost


def charge_seen(queue: QueueRecord, cost: int) -> None:
    """Charge a URI that was fetched elsewhere to the total expenditure alone: no turn is shortened."""
    queue.expenditure += cost
    queue.charges += 1
