"""The outcome of a URI: whether it is retried, ends, or goes to the dead letters."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from budgetfrontier.core.model import Outcome
from budgetfrontier.rules.backoff import OVERLOADED

if TYPE_CHECKING:
    from collections.abc import Collection

    from budgetfrontier.core.model import CrawlUri
    from budgetfrontier.settings.overrides import QueueSettings


ERROR = 400
"""The lowest HTTP status of an answer that is an error."""
_NO_ANSWER = frozenset({-1, -2, -3, -4, -61})
"""Heritrix's statuses of attempts without an answer: of DNS, of the host, or of its robots.txt."""
HOST = "(host)"
"""The text that stands for the host in the cause of a dead letter."""


class Fate(Enum):
    """The fate of a URI after an attempt."""

    REMOVED = "removed"
    KEPT = "kept in its place"
    DELAYED = "kept for later, while its queue goes on"
    DEAD = "moved to the dead letters"


def cause(reason: str, queue: str) -> str:
    """Return the reason of a dead letter without the key of its queue, which is the same cause with other hosts.

    >>> cause("DNS lookup failed: no results for hostname lookup: a.test", "a.test")
    'DNS lookup failed: no results for hostname lookup: (host)'
    """
    host = queue.partition(":")[0]
    return reason.replace(queue, HOST).replace(host, HOST) if len(host) > 1 else reason


def is_last_attempt(attempt: int, settings: QueueSettings) -> bool:
    """Return whether a URI that fails this attempt (the first is 1) has no retry left."""
    return attempt > settings.max_retries


def may_pass(status: int, statuses: Collection[int] = OVERLOADED) -> bool:
    """Return whether a status is worth another attempt: no answer, or one of `statuses`."""
    return status in _NO_ANSWER or status in statuses


def is_failure(status: int) -> bool:
    """Return whether an attempt that is not repeated has failed with this status: no page, or a server error."""
    return status <= 0 or status >= 500 or status in OVERLOADED


def is_about_page(status: int) -> bool:
    """Return whether a status (0: there was no answer) concerns the page alone, not its host, which has answered."""
    return status > 0 and status not in OVERLOADED


def attempts_after_answer(status: int, settings: QueueSettings) -> int:
    """Return how many attempts a URI has if each is answered with this status; 0: none is answered."""
    if is_about_page(status):
        return min(settings.status_retries, settings.max_retries) + 1
    return settings.max_retries + 1


def outcome_of_answer(status: int, attempt: int, settings: QueueSettings) -> Outcome:
    """Return the outcome of an attempt (the first is 1) that a server has answered, or that failed with a status < 0.

    A host that is overloaded or does not answer is asked again until the URI has no retry left. Another status that may
    pass fails for good after fewer tries, and so does any other failure at once: neither is a page that was crawled.
    """
    if may_pass(status, settings.retry_statuses):
        if not is_about_page(status) or attempt < attempts_after_answer(status, settings):
            return Outcome.RETRY
        return Outcome.FAILURE
    return Outcome.FAILURE if is_failure(status) else Outcome.SUCCESS


def waits_alone(status: int, settings: QueueSettings) -> bool:
    """Return whether a retry delays only its URI, not its host.

    That is so if `retry.scope` says it, or if the host answered with any status that is not about the host.
    """
    return settings.retry_uri or is_about_page(status)


def fate(outcome: Outcome, attempt: int, settings: QueueSettings, delay: float, status: int = 0) -> Fate:
    """Return the fate of a URI after an attempt. `delay`: seconds until a retry."""
    if outcome is Outcome.RETRY:
        if is_last_attempt(attempt, settings):
            return Fate.DEAD
        return Fate.DELAYED if delay > 0 and waits_alone(status, settings) else Fate.KEPT
    return _FATES[outcome]


def is_delivered_too_often(delivery: int, max_deliveries: int) -> bool:
    """Return whether a URI that was lost in its `delivery`-th delivery becomes a dead letter."""
    return delivery >= max_deliveries


def comes_again(uri: CrawlUri, via: CrawlUri | None) -> bool:
    """Return whether a URI that was found in the fetch of `via` is that one again: a revisit."""
    return via is not None and uri.force and uri.url == via.url


_FATES = {
    Outcome.SUCCESS: Fate.REMOVED,
    Outcome.FAILURE: Fate.REMOVED,
    Outcome.DEFERRED: Fate.KEPT,
    Outcome.DISREGARDED: Fate.REMOVED,
    Outcome.DEAD: Fate.DEAD,
}
