"""The rules of one queue: pure functions on its record that say what happens next, and touch nothing.

The life of a queue, in Heritrix's words ("Frontier queue budgets", 1.14):

    EXHAUSTED --URI arrives--> INACTIVE --activation--> READY <--> IN_PROCESS
        ^                        ^  |                    |  ^          |
        |                        |  +--over budget--+    |  +-SNOOZED<-+
        +---------empty----------+                  v    v             |
                                 +---change of--- RETIRED <-over budget+
                                      settings

READY, IN_PROCESS and SNOOZED queues are *active*. Who moves the queues is `rotation`; which moves are right is here.
"""

from __future__ import annotations

from budgetfrontier.model import Outcome, QueueRecord, QueueState
from budgetfrontier.settings.overrides import QueueSettings

READY, IN_PROCESS, SNOOZED = QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED
INACTIVE, RETIRED, EXHAUSTED = QueueState.INACTIVE, QueueState.RETIRED, QueueState.EXHAUSTED

CHARGED = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY, Outcome.DEAD))
"""Outcomes of attempts that were really made; the others cost nothing and call for no politeness."""


def over_total(spent: int, total: int, reached: bool) -> bool:
    """Whether `spent` is over a total budget: beyond it, or with `retire_when: reached` at it. Negative: no maximum."""
    return total >= 0 and (spent >= total if reached else spent > total)


def must_retire(queue: QueueRecord, reached: bool) -> bool:
    """Whether a queue is RETIRED instead of having its turn: nothing to replenish with, or over its total budget."""
    return queue.balance_replenish_amount <= 0 or over_total(queue.expenditure, queue.total_budget, reached)


def may_lease(queue: QueueRecord, concurrency: int, reached: bool) -> bool:
    """Whether one more URI may go out, when some may be out already.

    What is out reserves its cost: once it has used up the balance or the total budget, nothing more goes out. What has
    landed is out as well, but no longer one of those at a time.
    """
    out = queue.out
    if not out:
        return queue.queued > 0
    return (
        out - queue.landed < concurrency
        and queue.queued > out
        and queue.balance > queue.reserved
        and not over_total(queue.expenditure + queue.reserved, queue.total_budget, reached)
    )


def take(queue: QueueRecord, settings: QueueSettings) -> None:
    """Take over the budgets that are in force for a URI of this queue, its precedence apart."""
    queue.balance_replenish_amount = settings.balance_replenish_amount
    queue.total_budget = settings.queue_total_budget


def charge(queue: QueueRecord, cost: int, penalty: int) -> None:
    """Charge one attempt to the activity balance and the total expenditure."""
    queue.balance -= cost + penalty
    queue.expenditure += cost + penalty
    queue.penalties += penalty
    queue.charges += 1
    queue.last_cost = cost


def after_turn(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Where an active queue stands that is neither retired nor done: in the ring, asleep, or waiting for a finish."""
    if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
        return IN_PROCESS
    return SNOOZED if queue.wake_time > now else READY


def after_finish(queue: QueueRecord, settings: QueueSettings, now: float, best_waiting: int) -> QueueState:
    """Where a queue goes once an attempt has been charged. `best_waiting`: the best precedence with INACTIVE queues.

    The order of the questions is the rule. A better precedence is yielded to with the balance forfeited.
    """
    state = queue.state
    if state is RETIRED:
        return RETIRED
    if queue.total_budget >= 0 and over_total(queue.expenditure, queue.total_budget, settings.reached):
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if state is INACTIVE:
        return INACTIVE
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    if best_waiting < queue.precedence:
        return INACTIVE
    if queue.wake_time > now:
        return SNOOZED
    return after_turn(queue, settings, now) if queue.out else READY


def after_landing(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Where a queue goes when a download is over whose outcome is not known: on, or to its rest, if it was active."""
    return after_turn(queue, settings, now) if queue.state in (READY, IN_PROCESS) else queue.state


def after_lease_lost(queue: QueueRecord, now: float) -> QueueState:
    """Where a queue goes when a lease expired or its process died: nothing was charged, its URI is simply there.

    One whose balance is spent was active through its leases alone: the last that is lost ends its turn.
    """
    if queue.state is RETIRED:
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if queue.state is INACTIVE:
        return INACTIVE
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    return SNOOZED if queue.wake_time > now else READY


def on_activation(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Where an activated queue goes; its budgets have been taken anew. No debt and no credit is carried over."""
    if must_retire(queue, settings.reached):
        return RETIRED
    queue.balance = queue.balance_replenish_amount
    return SNOOZED if queue.wake_time > now else READY
