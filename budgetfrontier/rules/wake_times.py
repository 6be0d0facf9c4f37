"""The wake times of a queue: politeness, retries, and their correction after a clock that was ahead.

After an attempt that was really made, the host rests; nothing but an operator lets a queue wake earlier than it would
have otherwise.

A wake time further ahead than the longest delay that settings allow comes from such a clock: it is clipped, at opening
and when its queue is snoozed. All settings count that were in force since the opening, and the stored ones that the
opening replaced. So the opening that shortens delays does not cut a wait that was legitimate under the stored settings;
only the next one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.model import Outcome, QueueRecord
from budgetfrontier.rules import charges
from budgetfrontier.rules.uri_outcomes import is_last_attempt

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings


def longest_delay(settings: QueueSettings) -> float:
    """Return the longest wait that settings can give a queue, in seconds."""
    politeness = max(settings.max_delay, settings.respect_crawl_delay_up_to, settings.min_delay)
    return max(politeness + settings.jitter, settings.retry_delay, settings.min_interval)


def calls_for_rest(outcome: Outcome) -> bool:
    """Tell whether a queue rests for politeness after an outcome: DEFERRED and DISREGARDED asked nothing of the host.

    What is charged is what was asked for.
    """
    return charges.is_charged(outcome)


def extended(queue: QueueRecord, until: float) -> float:
    """Return when a queue wakes that is to rest until a time: never earlier than it would have."""
    return max(until, queue.wake_time)


def clipped_wake_time(queue: QueueRecord, latest: float) -> float:
    """Return the wake time of a queue, `latest` if it is later: then it was stored by a clock that was ahead.

    What an operator, or a delay or an interval given by name, has asked for stays.
    """
    by_name = max(queue.block, queue.paced_until if queue.interval is not None else 0.0)
    return latest if queue.wake_time > latest and queue.wake_time > by_name else queue.wake_time


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
