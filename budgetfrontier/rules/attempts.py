"""The words on failed attempts: how many of how many a URI has had, and when it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.units import say_duration

if TYPE_CHECKING:
    from budgetfrontier.model import QueueRecord
    from budgetfrontier.settings.overrides import QueueSettings


def attempts_told(attempts: int, settings: QueueSettings, next_in: float) -> str:
    """Return how many attempts of a URI have failed, and when it is given up if the others fail, too.

    `next_in`: seconds until the next one. Each further one comes after the retry delay, or later if its host is busy.
    """
    most = settings.max_retries + 1
    told = f"attempt {attempts:,} of {most:,}"
    if attempts >= most:
        return f"{told}, the last"
    left = next_in + (most - attempts - 1) * settings.retry_delay
    return f"{told}; if all fail, it is given up in {say_duration(left)} at the earliest"


def waits_for_retry(queue: QueueRecord) -> bool:
    """Tell whether the last attempt that a queue has made failed, so that its wait is that for a retry.

    The time of a lease is stored in whole seconds.
    """
    return queue.failed_at > 0 and queue.failed_at >= queue.last_lease_time
