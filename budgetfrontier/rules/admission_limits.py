"""The limits on how many URIs may be queued: which URIs are refused as FULL, and which are admitted beyond them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from budgetfrontier.core.model import Directive
from budgetfrontier.rules.duplicates import BLOOM
from budgetfrontier.rules.uri_outcomes import comes_again

if TYPE_CHECKING:
    from budgetfrontier.core.model import CrawlUri
    from budgetfrontier.settings.overrides import QueueSettings
    from budgetfrontier.settings.schema import FrontierSettings

MAX_QUEUED, MAX_QUEUE_SIZE = "max_queued", "max_queue_size"
"""The reasons for which a URI is FULL: the settings that limit the frontier, and its queue."""
BLOOM_EXPECTED = "bloom.expected"
"""The setting that limits how many URIs are recorded as seen with `duplicates: bloom`."""
MAXSIZE = "maxsize"
"""The limit of a scheduler for asyncio, an argument of it: the frontier itself is not asked then."""
LIMITS = frozenset((MAX_QUEUED, MAX_QUEUE_SIZE, BLOOM_EXPECTED, MAXSIZE))
"""All reasons for which a URI is FULL; none of them is a reason for which one is INVALID."""


def any_limit(frontier: FrontierSettings) -> bool:
    """Return whether the frontier or its queues are limited, overrides aside. A Bloom filter may be full."""
    return bool(frontier.max_queued or frontier.max_queue_size or frontier.duplicates == BLOOM)


def has_room(limit: int, held: int, more: int) -> bool:
    """Return whether so many more URIs fit in with those held by a queue, or by the frontier. A limit of 0 is none."""
    return limit <= 0 or held + more <= limit


def limit_reached(
    frontier: FrontierSettings, settings: QueueSettings, *, queued: int, queue_size: Callable[[], int]
) -> str | None:
    """Return the limit for which a URI with these settings finds no room; None if there is room. A limit of 0 is none.

    `queued` is the total of the frontier. `queue_size` returns how many URIs the queue holds, and is called only if
    that matters: if the frontier is full, it is MAX_QUEUED whatever the queue holds.
    """
    if not has_room(frontier.max_queued, queued, 1):
        return MAX_QUEUED
    if settings.max_queue_size > 0 and not has_room(settings.max_queue_size, queue_size(), 1):
        return MAX_QUEUE_SIZE
    return None


def may_overfill(uri: CrawlUri | None, via: CrawlUri | None) -> bool:
    """Return whether a URI is admitted beyond all limits. `uri` is None for a URI that is only a URL.

    A prerequisite such as robots.txt is, because the queued URIs wait for it: a forced URI with directive HIGHEST. So
    is a revisit passed to the finish of `via`, because it takes that URI's place.
    """
    return uri is not None and ((uri.force and uri.directive is Directive.HIGHEST) or comes_again(uri, via))
