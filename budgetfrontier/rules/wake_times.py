"""The wake times of a queue: politeness, retries, and their correction after a clock that was ahead.

After an attempt that was really made, the host rests; nothing but an operator lets a queue wake earlier than it would
have otherwise. A block that is undone leaves the rests that were earned under it.

A wake time further ahead than the longest delay that settings allow comes from such a clock: it is clipped, at opening
and when its queue is snoozed. All settings count that were in force since the opening, and the stored ones that the
opening replaced. So an opening with shorter delays does not cut waits by the stored settings; only the next one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from budgetfrontier.core.model import Outcome, QueueRecord
from budgetfrontier.rules import bandwidth, charges, crawl_windows
from budgetfrontier.rules.backoff import OVERLOADED
from budgetfrontier.rules.uri_outcomes import is_about_page, is_last_attempt, waits_alone

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings


def longest_delay(settings: QueueSettings) -> float:
    """Return the longest wait that settings can give a queue, in seconds."""
    politeness = max(settings.max_delay, settings.respect_crawl_delay_up_to, settings.min_delay)
    longest = max(politeness + settings.jitter, settings.retry_delay, settings.min_interval)
    longest = max(longest, bandwidth.LONGEST) if settings.max_bandwidth else longest
    return max(longest, crawl_windows.LONGEST) if settings.windows else longest


def calls_for_rest(outcome: Outcome) -> bool:
    """Return whether a queue rests for politeness after an outcome: DEFERRED and DISREGARDED asked nothing of the host.

    Only requests are charged.
    """
    return charges.is_charged(outcome)


def clipped_wake_time(queue: QueueRecord, latest: float) -> float:
    """Return the wake time of a queue, `latest` if it is later: then it was stored by a clock that was ahead.

    A block, and a delay given by name, stay; so does an interval given by name, for its length.
    """
    return min(queue.wake_time, max(latest + (queue.interval or 0.0), queue.block, queue.delayed))


class Waits(NamedTuple):
    """The waits of a queue, as its record has them."""

    wake_time: float
    block: float
    delayed: float
    rest: float
    paced_until: float = 0
    closed_until: float = 0

    @classmethod
    def of(cls, queue: QueueRecord) -> Self:
        return cls(queue.wake_time, queue.block, queue.delayed, queue.rest, queue.paced_until, queue.closed_until)

    @classmethod
    def told(cls, look: dict[str, Any]) -> Self:
        """Return the waits in an entry of the audit."""
        return cls(
            look["wake_time"], look["block"], look["delayed"], look["rest"], closed_until=look.get("closed_until", 0)
        )

    @property
    def earned(self) -> float:
        """The wake time by politeness, retries and delays alone."""
        others = max(self.block, self.paced_until, self.closed_until)
        return self.rest if 0 < self.wake_time <= others else self.wake_time

    @property
    def unblocked(self) -> float:
        """The wake time if there were no block, and crawl windows were open."""
        return max(self.earned, self.paced_until)

    @property
    def reopened(self) -> float:
        """The wake time if crawl windows were open."""
        return self.wake_time if self.wake_time > self.closed_until else max(self.unblocked, self.block)


def host_waits(queue: QueueRecord, now: float) -> bool:
    """Return whether a queue waits for more than its crawl windows: then so does each queue of its host."""
    return queue.wake_time > now and Waits.of(queue).reopened > now


def blocked(queue: QueueRecord, until: float, now: float) -> Waits:
    """Return the waits of a queue that its operator blocks until a time, or as long as it waits already.

    A time that is past changes nothing.
    """
    waits = Waits.of(queue)
    if until <= now:
        return waits
    until = max(until, waits.reopened)
    return Waits(
        max(until, waits.closed_until), until, queue.delayed, waits.earned, queue.paced_until, queue.closed_until
    )


def blocked_until(queue: QueueRecord, until: float, now: float) -> Waits:
    """Return the waits of a queue blocked until a time, and no longer; a time in the past ends a block now."""
    waits = Waits.of(queue)
    block = until if until > now else 0
    wake_time = max(waits.unblocked, block, waits.closed_until, min(waits.wake_time, now))
    return Waits(wake_time, block, waits.delayed, waits.earned, waits.paced_until, waits.closed_until)


def woken(queue: QueueRecord, now: float) -> Waits:
    """Return the waits of a queue after an operator has ended them now."""
    return Waits(
        min(queue.wake_time, now),
        0,
        min(queue.delayed, now),
        min(queue.rest, now),
        min(queue.paced_until, now),
        min(queue.closed_until, now),
    )


def paced(queue: QueueRecord, interval: float, now: float) -> Waits:
    """Return the waits of a queue that gets another interval: it counts from the last lease, whatever it was then."""
    waits = Waits.of(queue)
    until = min(queue.served, now) + interval if queue.served and interval else 0
    if max(until, waits.paced_until) <= now:
        return waits
    until = until if until > now else now
    wake_time = max(waits.earned, waits.block, until, waits.closed_until)
    return Waits(wake_time, waits.block, waits.delayed, waits.earned, until, waits.closed_until)


def closed(queue: QueueRecord, opens: float) -> Waits:
    """Return the waits of a queue that has its turn outside of its crawl windows, and waits until they open."""
    waits = Waits.of(queue)
    return Waits(max(waits.reopened, opens), waits.block, waits.delayed, waits.earned, waits.paced_until, opens)


def reopened(queue: QueueRecord) -> Waits:
    """Return the waits of a queue that does not wait for its crawl windows any more: it is asked again in its turn."""
    waits = Waits.of(queue)
    return Waits(waits.reopened, waits.block, waits.delayed, waits.earned, waits.paced_until)


def joined(queue: QueueRecord, other: QueueRecord) -> Waits:
    """Return the waits of a queue that takes those of another one of its host: of each, the later one.

    Its crawl windows are its own.
    """
    own, others = Waits.of(queue), Waits.of(other)
    earned, block = max(own.earned, others.earned), max(own.block, others.block)
    paced_until = max(own.paced_until, others.paced_until)
    wake_time = max(earned, block, paced_until, own.closed_until)
    return Waits(wake_time, block, max(own.delayed, others.delayed), earned, paced_until, own.closed_until)


def restored(queue: QueueRecord, before: Waits, after: Waits) -> Waits:
    """Return the waits of a queue as they were `before` a command of its operator, which had left them like `after`.

    Rests and delays that have begun since stay, and so do the interval after the last lease, and the wait for crawl
    windows.
    """
    found = Waits.of(queue)
    begun = found.unblocked if found.unblocked != after.unblocked else 0
    delayed = found.delayed if found.delayed != after.delayed else 0
    return Waits(
        max(before.reopened, begun, found.paced_until, found.closed_until),
        before.block,
        max(before.delayed, delayed),
        max(before.unblocked, begun),
        found.paced_until,
        found.closed_until,
    )


def wait_after(
    outcome: Outcome, attempt: int, settings: QueueSettings, politeness: float, delay: float | None, status: int = 0
) -> tuple[float, bool]:
    """Return for how many seconds a queue waits after a finish, and whether `delay`, given by name, asked for that.

    A RETRY lengthens the wait, unless its URI alone waits or has no attempt left. A back-off of the host, which is then
    the delay, does so in any case.
    """
    if outcome is Outcome.RETRY and not (delay and status in OVERLOADED):
        if waits_alone(status, settings) or is_last_attempt(attempt, settings):
            return politeness, False
        return max(politeness, retry_delay(settings, delay)), bool(delay)
    return max(politeness, delay or 0.0), bool(delay)


def retry_delay(settings: QueueSettings, delay: float | None, status: int = 0) -> float:
    """Return after how many seconds a URI is tried again: `delay` if it was given. `status`: 0 without an answer."""
    if delay is not None:
        return delay
    return settings.status_delay if is_about_page(status) else settings.retry_delay
