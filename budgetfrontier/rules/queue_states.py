"""The states of a queue: which it has next, after whatever happens to it.

`Turns.retire` and `Turns.unretire` in the engine set and clear the mark of a queue that was retired by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.rules.budgets import is_over_total, must_retire, replenish

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings

READY, IN_PROCESS, SNOOZED = QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED
INACTIVE, INELIGIBLE = QueueState.INACTIVE, QueueState.INELIGIBLE
RETIRED, EXHAUSTED = QueueState.RETIRED, QueueState.EXHAUSTED

ACTIVE = frozenset((READY, IN_PROCESS, SNOOZED))

WORST_PRECEDENCE = 0xFFFF
NONE_WAITING = WORST_PRECEDENCE + 1
"""The value used for the best precedence of INACTIVE queues if there are none, and for the floor without one."""


def while_waiting(precedence: int, floor: int | None) -> QueueState:
    """Return the state of a queue that waits for its activation: INELIGIBLE at the precedence floor, or beyond.

    Where another rule says INACTIVE, this one decides.
    """
    return INACTIVE if floor is None or precedence < floor else INELIGIBLE


def ready_or_snoozed(queue: QueueRecord, now: float) -> QueueState:
    """Return the state of a queue that may go on, or has to wait for its wake time."""
    return SNOOZED if queue.wake_time > now else READY


def may_lease(queue: QueueRecord, concurrency: int, reached: bool) -> bool:
    """Return whether one more URI may go out, when some may be out already.

    URIs that are out reserve their cost: once they have used up the balance or the total budget, no more go out. Landed
    ones are still out, but no longer count towards the concurrency.
    """
    out = queue.out
    if not out:
        return queue.queued > 0
    return (
        out - queue.landed < concurrency
        and queue.queued > out
        and queue.balance > queue.reserved
        and (
            queue.total_budget < 0  # `is_over_total` would say so, after a call for each URI
            or not is_over_total(queue.expenditure + queue.reserved, queue.total_budget, reached)
        )
    )


def after_arrival(
    queue: QueueRecord, settings: QueueSettings, now: float, hold_queues: bool
) -> tuple[QueueState, bool]:
    """Return the state of a queue on which URIs have been placed, and whether it is activated at once from there."""
    if queue.state is EXHAUSTED:
        after = _refilled(queue)
        return after, after is INACTIVE and not hold_queues
    return after_turn(queue, settings, now) if queue.state is IN_PROCESS else queue.state, False


def _refilled(queue: QueueRecord) -> QueueState:
    return RETIRED if queue.by_name else INACTIVE


def on_activation(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of a queue that is activated, and set its balance. Its budgets have just been read again."""
    if must_retire(queue, settings.reached):
        return RETIRED
    replenish(queue)
    state = ready_or_snoozed(queue, now)
    return after_turn(queue, settings, now) if state is READY and queue.out else state


def after_turn(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of an active queue that goes on: IN_PROCESS, asleep, or in the ring."""
    if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
        return IN_PROCESS
    return ready_or_snoozed(queue, now)


def after_waking(queue: QueueRecord, settings: QueueSettings) -> QueueState:
    """Return the state of a SNOOZED queue after its wake time."""
    if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
        return IN_PROCESS
    return READY


def after_finish(
    queue: QueueRecord, settings: QueueSettings, now: float, best_waiting: int, retire: bool = False
) -> QueueState:
    """Return the state of a queue once an attempt has been charged.

    `best_waiting` is the best precedence of the INACTIVE queues, at most the last one before the floor; `retire`: the
    finish asks for it. The order of the questions is the rule. A queue that yields to a better precedence forfeits its
    balance.
    """
    state = queue.state
    if retire or state is RETIRED:
        return RETIRED
    if queue.total_budget >= 0 and is_over_total(queue.expenditure, queue.total_budget, settings.reached):
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if state is INACTIVE or state is INELIGIBLE:
        return state
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    if best_waiting < queue.precedence:
        queue.balance = 0
        return INACTIVE
    if queue.wake_time > now:
        return SNOOZED
    return after_turn(queue, settings, now) if queue.out else READY


def after_landing(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of a queue when a download is over, and its outcome not known yet."""
    return after_turn(queue, settings, now) if queue.state in (READY, IN_PROCESS) else queue.state


def after_lease_lost(queue: QueueRecord, now: float) -> QueueState:
    """Return the state of a queue when a lease expired or its process died: nothing was charged, its URI stays.

    A queue with a spent balance was kept active by its leases alone: losing the last ends its turn, as a finish would.
    """
    if queue.state is RETIRED:
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if queue.state is INACTIVE or queue.state is INELIGIBLE:
        return queue.state
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    return ready_or_snoozed(queue, now)


def after_deletion(queue: QueueRecord) -> QueueState:
    """Return the state of a queue from which URIs were deleted."""
    if not queue.queued:
        return EXHAUSTED
    return IN_PROCESS if queue.state is READY and queue.out >= queue.queued else queue.state


def is_revived_by_change(queue: QueueRecord) -> bool:
    """Return whether a change of settings revives a RETIRED queue: not if it was retired by name."""
    return not queue.by_name


def after_unretirement(queue: QueueRecord) -> QueueState:
    """Return the state of a RETIRED queue that is brought back, by its operator or by a change of settings."""
    return INACTIVE if queue.queued else EXHAUSTED


def is_possible(queue: QueueRecord) -> bool:
    """Return whether a queue may be in its state with its URIs: only EXHAUSTED and RETIRED ones have none."""
    if queue.state is EXHAUSTED:
        return not queue.queued
    return queue.queued > 0 or queue.state is RETIRED


def nearest_possible(queue: QueueRecord, now: float) -> QueueState:
    """Return the state of a queue, or the nearest that is possible with the URIs and leases that it has."""
    state = queue.state
    if state is RETIRED:
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if state is EXHAUSTED:
        return _refilled(queue)
    if state is IN_PROCESS and not queue.out:
        return ready_or_snoozed(queue, now)
    return after_deletion(queue)
