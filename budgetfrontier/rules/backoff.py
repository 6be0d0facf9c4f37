"""The back-off: how long a host rests that answers that it has too much to do.

It may say for how long. If it does not, answers that come before its rest is over belong to the same incident, and the
rest of the next incident is longer, unless nothing was heard of one for long enough since.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.settings.overrides import QueueSettings

UNAVAILABLE = 503
OVERLOADED = frozenset({429, UNAVAILABLE})
"""The HTTP statuses of a host that has too much to do: Too Many Requests and Service Unavailable."""


_MOST_DIGITS = 9  # of a number of seconds; more are years


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, which is a number or an HTTP date (RFC 9110, section 10.2.3).

    None if it asks for nothing: 0, a date that has passed, or anything else.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:_MOST_DIGITS]) or None
    try:
        date = parsedate_to_datetime(value)
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0.0 else None


class BackOff(NamedTuple):
    """The length of the last back-off of a queue in seconds, and the end of the rest that its host was given last."""

    seconds: float
    until: float

    @classmethod
    def of(cls, queue: QueueRecord) -> Self:
        return cls(queue.backoff, queue.overloaded_until)


def first_rest(settings: QueueSettings, asked: float | None) -> float:
    """Return the least seconds until a URI is tried again after its host answered that it is overloaded.

    `asked`: its Retry-After, none if it is 0. Without a back-off, the retry delay applies.
    """
    return min(asked or settings.backoff_delay, settings.backoff_max_delay) or settings.retry_delay


def after_overload(queue: QueueRecord, settings: QueueSettings, asked: float | None, now: float) -> BackOff:
    """Return the back-off of a queue after its host was overloaded; `asked`: its Retry-After, none if it is 0.

    A Retry-After is obeyed, up to the longest back-off, and is no incident: it makes the next back-off no longer.
    """
    if asked:
        return BackOff(queue.backoff, max(queue.overloaded_until, now + min(asked, settings.backoff_max_delay)))
    if now < queue.overloaded_until or not settings.backoff_delay:
        return BackOff(queue.backoff, queue.overloaded_until)
    seconds = settings.backoff_delay
    if queue.backoff and now < queue.overloaded_until + settings.backoff_forgive_after:
        seconds = max(seconds, queue.backoff * settings.backoff_factor)
    seconds = min(seconds, settings.backoff_max_delay)
    return BackOff(seconds, now + seconds)


def forget_later(queue: QueueRecord, latest: float) -> None:
    """Forget a rest of a queue's host that ends after `latest`: then a clock that was ahead has stored it."""
    if queue.overloaded_until > latest:
        if queue.delayed <= queue.overloaded_until:
            queue.delayed = 0
        queue.backoff = queue.overloaded_until = 0


def rests_ahead(queue: QueueRecord, settings: QueueSettings, urls: int, *, now: float) -> float:
    """Return the seconds that an overloaded host rests yet until so many of its URIs have ended, if it goes on so.

    It is taken to have too much to do as often as in all of its attempts so far, and the rest in force is not counted.
    0.0 if nothing was heard of an incident for long enough.
    """
    if not (queue.backoff and settings.backoff_delay) or now >= queue.overloaded_until + settings.backoff_forgive_after:
        return 0.0
    factor, rest, seconds = settings.backoff_factor, float(queue.backoff), 0.0
    longer = factor > 1.0 and rest > settings.backoff_delay
    each = max(queue.charges / (1.0 + (log(rest / settings.backoff_delay, factor) if longer else 0.0)), 1.0)
    tries = min(each / (each - 1.0) if each > 1.0 else inf, settings.max_retries + 1)
    rests = int(urls * tries / each)
    while rests and factor > 1.0 and rest < settings.backoff_max_delay:
        rest, rests = min(rest * factor, settings.backoff_max_delay), rests - 1
        seconds += rest
    return seconds + rests * rest
