"""The budgets of a queue: when one is spent, so that the queue is RETIRED, and which settings it takes them from.

`engine.turns` asks before each lease whether a budget is spent. A queue takes its budgets from the URI placed on it
last (`Turns.arrived`), and from its head when it is activated or settings have changed (`engine.queue_settings`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.core.model import QueueRecord

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings


def is_over_total(spent: int, total: int, reached: bool) -> bool:
    """Return whether `spent` exceeds a total budget, or with `retire_when: reached` equals it. Negative: no limit."""
    return total >= 0 and (spent >= total if reached else spent > total)


def rest_of_total(spent: int, total: int, reached: bool) -> int | None:
    """Return the rest of a total budget, which is not spent, until it is, if URIs cost 1; None: no limit."""
    return None if total < 0 else total - spent + (not reached)


def must_retire(queue: QueueRecord, reached: bool) -> bool:
    """Return whether a queue is RETIRED instead of having its turn: nothing to replenish, or over a limit."""
    return (
        queue.balance_replenish_amount <= 0
        or is_over_total(queue.expenditure, queue.total_budget, reached)
        or has_completed(queue)
    )


def has_completed(queue: QueueRecord) -> bool:
    """Return whether as many URLs of a queue are completed as its limit allows."""
    return 0 < queue.max_completed <= queue.completed


def replenish(queue: QueueRecord) -> None:
    """Set the balance of a queue that is activated: no debt and no credit is carried over."""
    queue.balance = queue.balance_replenish_amount


def take_budgets(queue: QueueRecord, settings: QueueSettings, revision: int) -> None:
    """Set the budgets of a queue to those in force for one of its URIs, but not its precedence."""
    queue.balance_replenish_amount = settings.balance_replenish_amount
    queue.total_budget = total_of(queue, settings)
    queue.revision = revision


def total_of(queue: QueueRecord, settings: QueueSettings) -> int:
    """Return the total budget of a queue: that of an adjustment, else that of crawlers, else that of the settings."""
    if queue.own_budget is None or settings.total_adjusted:
        return settings.queue_total_budget
    return queue.own_budget
