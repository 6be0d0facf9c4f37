"""The words on failed attempts: how many of how many a URI has had, and when it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.core.units import say_duration
from budgetfrontier.rules.backoff import OVERLOADED, first_rest
from budgetfrontier.rules.uri_outcomes import attempts_after_answer, is_last_attempt
from budgetfrontier.rules.wake_times import retry_delay

if TYPE_CHECKING:
    from budgetfrontier.core.model import Finish, QueueRecord
    from budgetfrontier.settings.overrides import QueueSettings


def attempts_told(attempts: int, settings: QueueSettings, next_in: float, *, status: int = 0) -> str:
    """Return how many attempts of a URI have failed, and when it is given up if the others fail in the same way.

    `next_in`: seconds until the next one. Each further one comes after the retry delay, or later if its host is busy.
    `status`: that of the last answer, 0 if there was none. A host that has too much to do sets the delays itself.
    """
    most = attempts_after_answer(status, settings)
    text = f"attempt {attempts:,} of {most:,}"
    if attempts >= most:
        return f"{text}, the last"
    if status in OVERLOADED:
        return text
    left = next_in + (most - attempts - 1) * max(retry_delay(settings, None, status), settings.min_delay)
    return f"{text}; if all fail, it is given up in {say_duration(left)} at the earliest"


def first_retry_told(finish: Finish, settings: QueueSettings) -> str:
    """Return the sentence on the first attempt of a URI that ended in a RETRY, and on when it is tried again."""
    if is_last_attempt(1, settings):
        return attempts_told(1, settings, 0.0, status=finish.status)
    if finish.status in OVERLOADED:
        wait, earliest = first_rest(settings, finish.delay), " at the earliest"
    else:
        wait, earliest = max(retry_delay(settings, finish.delay, finish.status), settings.min_delay), ""
    return f"tried again in {say_duration(wait)}{earliest}, {attempts_told(1, settings, wait, status=finish.status)}"


def ended_in_error(queue: QueueRecord) -> bool:
    """Return whether the last attempt that a queue has made failed, or was answered with an error status.

    The time of a lease is stored in whole seconds.
    """
    return queue.failed_at > 0 and queue.failed_at >= queue.last_lease_time


def waits_for_retry(queue: QueueRecord, attempts: int) -> bool:
    """Return whether a queue waits for a retry. `attempts`: the failed attempts of its first URI.

    They are 0 after an attempt that has removed its URI, such as a fetch answered with a 404.
    """
    return attempts > 0 and ended_in_error(queue)
