"""The rules: what happens next to a queue, to a URI, and to the crawl.

They know records, settings and numbers, but no table, no clock and no policy. Those that change a record say so; all
others only answer. The engine applies them, `store.invariants` and `store.repair` hold what is stored against them.

The life of a queue, in Heritrix's words ("Frontier queue budgets", 1.14):

    EXHAUSTED --URI arrives--> INACTIVE --activation--> READY <--> IN_PROCESS
        ^                        ^  |                    |  ^          |
        |                        |  +--over budget--+    |  +-SNOOZED<-+
        +---------empty----------+                  v    v             |
                                 +---change of--- RETIRED <-over budget+
                                      settings
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from budgetfrontier.model import CrawlState, Directive, Outcome, QueueRecord, QueueState

if TYPE_CHECKING:
    from budgetfrontier.model import CrawlUri
    from budgetfrontier.settings.overrides import QueueSettings

READY, IN_PROCESS, SNOOZED = QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED
INACTIVE, RETIRED, EXHAUSTED = QueueState.INACTIVE, QueueState.RETIRED, QueueState.EXHAUSTED

ACTIVE = frozenset((READY, IN_PROCESS, SNOOZED))

WORST_PRECEDENCE = 0xFFFF
NONE_WAITING = WORST_PRECEDENCE + 1
"""What stands for the best precedence of the INACTIVE queues when there are none."""


# -- budgets and charges


def is_over_total(spent: int, total: int, reached: bool) -> bool:
    """Whether `spent` is over a total budget: beyond it, or with `retire_when: reached` at it. Negative: no maximum."""
    return total >= 0 and (spent >= total if reached else spent > total)


def must_retire(queue: QueueRecord, reached: bool) -> bool:
    """Whether a queue is RETIRED instead of having its turn: nothing to replenish with, or over its total budget."""
    return queue.balance_replenish_amount <= 0 or is_over_total(queue.expenditure, queue.total_budget, reached)


def take_budgets(queue: QueueRecord, settings: QueueSettings, revision: int) -> None:
    """Set the budgets of a queue to those in force for one of its URIs; its precedence is another matter."""
    queue.balance_replenish_amount = settings.balance_replenish_amount
    queue.total_budget = settings.queue_total_budget
    queue.revision = revision


def is_charged(outcome: Outcome) -> bool:
    """Whether an attempt was really made: the others cost nothing and call for no politeness."""
    return outcome in _CHARGED


def penalty(outcome: Outcome, settings: QueueSettings) -> int:
    """Return what an attempt is charged beyond its cost."""
    return settings.error_penalty_amount if outcome is Outcome.FAILURE else 0


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


# -- states and turns of a queue


def ready_or_snoozed(queue: QueueRecord, now: float) -> QueueState:
    """Return the state of a queue that may go on, or has to wait for its wake time."""
    return SNOOZED if queue.wake_time > now else READY


def may_lease(queue: QueueRecord, concurrency: int, reached: bool) -> bool:
    """Whether one more URI may go out, when some may be out already.

    What is out reserves its cost: once it has used up the balance or the total budget, nothing more goes out. What has
    landed is out as well, but no longer counts towards the concurrency.
    """
    out = queue.out
    if not out:
        return queue.queued > 0
    return (
        out - queue.landed < concurrency
        and queue.queued > out
        and queue.balance > queue.reserved
        and not is_over_total(queue.expenditure + queue.reserved, queue.total_budget, reached)
    )


def after_arrival(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of a queue on which URIs have been placed, with `hold_queues`."""
    if queue.state is EXHAUSTED:
        return RETIRED if queue.by_name else INACTIVE
    return after_turn(queue, settings, now) if queue.state is IN_PROCESS else queue.state


def on_activation(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of a queue that is activated, and set its balance. Its budgets have been taken anew.

    No debt and no credit is carried over.
    """
    if must_retire(queue, settings.reached):
        return RETIRED
    queue.balance = queue.balance_replenish_amount
    state = ready_or_snoozed(queue, now)
    return after_turn(queue, settings, now) if state is READY and queue.out else state


def after_turn(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of an active queue that goes on: IN_PROCESS, asleep, or in the ring."""
    if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
        return IN_PROCESS
    return ready_or_snoozed(queue, now)


def after_waking(queue: QueueRecord, settings: QueueSettings) -> QueueState:
    """Return the state of a SNOOZED queue whose wake time has come."""
    if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
        return IN_PROCESS
    return READY


def after_finish(queue: QueueRecord, settings: QueueSettings, now: float, best_waiting: int) -> QueueState:
    """Return the state of a queue once an attempt has been charged.

    `best_waiting` is the best precedence of the INACTIVE queues. The order of the questions is the rule. A queue that
    yields to a better precedence forfeits its balance.
    """
    state = queue.state
    if state is RETIRED:
        return RETIRED
    if queue.total_budget >= 0 and is_over_total(queue.expenditure, queue.total_budget, settings.reached):
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if state is INACTIVE:
        return INACTIVE
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    if best_waiting < queue.precedence:
        queue.balance = 0
        return INACTIVE
    if queue.wake_time > now:
        return SNOOZED
    return after_turn(queue, settings, now) if queue.out else READY


def after_landing(queue: QueueRecord, settings: QueueSettings, now: float) -> QueueState:
    """Return the state of a queue when a download is over whose outcome is not known yet."""
    return after_turn(queue, settings, now) if queue.state in (READY, IN_PROCESS) else queue.state


def after_lease_lost(queue: QueueRecord, now: float) -> QueueState:
    """Return the state of a queue when a lease expired or its process died: nothing was charged, its URI stays.

    One whose balance is spent was kept active by its leases alone: the last that is lost ends its turn, as a finish
    would.
    """
    if queue.state is RETIRED:
        return RETIRED
    if not queue.queued:
        return EXHAUSTED
    if queue.state is INACTIVE:
        return INACTIVE
    if queue.balance <= 0:
        return IN_PROCESS if queue.out else INACTIVE
    return ready_or_snoozed(queue, now)


def after_deletion(queue: QueueRecord) -> QueueState:
    """Return the state of a queue from which URIs were deleted."""
    if not queue.queued:
        return EXHAUSTED
    return IN_PROCESS if queue.state is READY and queue.out >= queue.queued else queue.state


def after_unretirement(queue: QueueRecord) -> QueueState:
    """Return the state of a RETIRED queue that is brought back, by its operator or by a change of settings."""
    return INACTIVE if queue.queued else EXHAUSTED


def is_possible(queue: QueueRecord) -> bool:
    """Whether a queue may be in its state with the URIs that it holds: only EXHAUSTED and RETIRED ones hold none."""
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
        return RETIRED if queue.by_name else INACTIVE
    if state is IN_PROCESS and not queue.out:
        return ready_or_snoozed(queue, now)
    return after_deletion(queue)


# -- wake times


def longest_delay(settings: QueueSettings) -> float:
    """Return the longest wait that settings can give a queue, in seconds."""
    politeness = max(settings.max_delay, settings.respect_crawl_delay_up_to, settings.min_delay)
    return max(politeness + settings.jitter, settings.retry_delay)


def clipped_wake_time(queue: QueueRecord, latest: float) -> float:
    """Return the wake time of a queue, `latest` if it is later: then it was stored by a clock that was ahead.

    What an operator, or a delay given by name, has asked for stays.
    """
    return latest if queue.wake_time > latest and queue.wake_time > queue.block else queue.wake_time


def wait_after(
    outcome: Outcome, attempt: int, settings: QueueSettings, politeness: float, delay: float | None
) -> tuple[float, bool]:
    """Return for how many seconds a queue waits after a finish, and whether `delay`, given by name, asked for that.

    A RETRY lengthens the wait, unless its URI alone waits or has no attempt left.
    """
    if outcome is Outcome.RETRY:
        if settings.retry_uri or is_last_attempt(attempt, settings):
            return politeness, False
        return max(politeness, retry_delay(settings, delay)), bool(delay)
    return max(politeness, delay or 0.0), bool(delay)


def retry_delay(settings: QueueSettings, delay: float | None) -> float:
    """Return after how many seconds a URI is tried again: `delay` if it was given."""
    return settings.retry_delay if delay is None else delay


# -- what becomes of a URI


class Fate(Enum):
    """What becomes of a URI whose attempt has ended."""

    REMOVED = "removed"
    KEPT = "kept in its place"
    DELAYED = "kept for later, while its queue goes on"
    DEAD = "moved to the dead letters"


def is_last_attempt(attempt: int, settings: QueueSettings) -> bool:
    """Whether a URI that fails this attempt (the first is 1) has no retry left."""
    return attempt > settings.max_retries


def fate(outcome: Outcome, attempt: int, settings: QueueSettings, delay: float) -> Fate:
    """Return what becomes of a URI after an attempt. `delay`: seconds until a retry."""
    if outcome is Outcome.RETRY:
        if is_last_attempt(attempt, settings):
            return Fate.DEAD
        return Fate.DELAYED if settings.retry_uri and delay > 0 else Fate.KEPT
    return _FATES[outcome]


def is_delivered_too_often(delivery: int, max_deliveries: int) -> bool:
    """Whether a URI that was handed out for the `delivery`-th time and lost is given up on."""
    return delivery >= max_deliveries


def is_full(count: int, limit: int) -> bool:
    """Whether a queue, or the frontier, takes no further URI. A limit of 0 is none."""
    return 0 < limit <= count


def comes_again(uri: CrawlUri, via: CrawlUri | None) -> bool:
    """Whether a URI that was found in the fetch of `via` is that one again: a revisit."""
    return via is not None and uri.force and uri.url == via.url


def may_overfill(uri: CrawlUri | None, via: CrawlUri | None) -> bool:
    """Whether a URI is admitted over all limits.

    A prerequisite is, such as robots.txt, for what fills the queue waits for it; so is a revisit, for it takes the
    place of the URI that is finished.
    """
    return uri is not None and ((uri.force and uri.directive is Directive.HIGHEST) or comes_again(uri, via))


_CHARGED = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY, Outcome.DEAD))
_FATES = {
    Outcome.SUCCESS: Fate.REMOVED,
    Outcome.FAILURE: Fate.REMOVED,
    Outcome.DEFERRED: Fate.KEPT,
    Outcome.DISREGARDED: Fate.REMOVED,
    Outcome.DEAD: Fate.DEAD,
}


# -- states of the crawl

FINISH = "finish"
"""The reason of a pause that `pause_at_finish` brought about."""


def is_empty(*, queued: int, leases: int, future: int, future_retired: int) -> bool:
    """Whether nothing is queued, out, or scheduled for later; what waits for RETIRED queues does not count."""
    return not queued and not leases and future <= future_retired


def next_crawl_state(
    state: CrawlState, *, scheduled: int, leases: int, empty: bool, busy: bool, pause_at_finish: bool
) -> CrawlState:
    """Return the state of the crawl that follows from what happened. RUNNING becomes PAUSED for `FINISH` alone.

    `scheduled`: URIs ever admitted. `busy`: a command is in progress, and the crawl is not over before it is.
    """
    if state is CrawlState.NEW and (scheduled or not empty):
        state = CrawlState.RUNNING
    if state is CrawlState.RUNNING and empty and not busy:
        return CrawlState.PAUSED if pause_at_finish else CrawlState.FINISHED
    if state is CrawlState.PAUSING and not leases:
        return CrawlState.PAUSED
    if state is CrawlState.FINISHED and not empty:
        return CrawlState.RUNNING
    return state


def after_pause(state: CrawlState, leases: int) -> CrawlState:
    """Return the state of a crawl that is paused with so many leases out."""
    if state in (CrawlState.PAUSED, CrawlState.PAUSING, CrawlState.TERMINATED):
        return state
    return CrawlState.PAUSING if leases else CrawlState.PAUSED


def after_resume(state: CrawlState, scheduled: int) -> CrawlState:
    """Return the state of a crawl that goes on after a pause; one that was terminated never does."""
    if state not in (CrawlState.PAUSED, CrawlState.PAUSING):
        return state
    return CrawlState.RUNNING if scheduled else CrawlState.NEW


# -- keys of queues

MAX_QUEUE_KEY = 255
"""Bytes of a queue key in UTF-8; LMDB takes 511."""


def queue_key_bytes(key: str) -> bytes | None:
    """Return a queue key as it is stored; None for text that cannot be one."""
    try:
        stored = key.encode()
    except UnicodeEncodeError:  # lone surrogates
        return None
    return stored if 0 < len(stored) <= MAX_QUEUE_KEY and b"\0" not in stored else None


def queue_key_of(stored: bytes) -> str | None:
    """Return the queue key that was stored as these bytes; None if that cannot be one."""
    try:
        key = stored.decode()
    except UnicodeDecodeError:
        return None
    return key if queue_key_bytes(key) is not None else None
