"""The order of requests: read from Scrapy's settings, and expressed in priorities of the frontier."""

from __future__ import annotations

import logging
import re
from typing import Any, Literal, NamedTuple

from scrapy.utils.misc import load_object

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import SettingsError

Direction = Literal["fifo", "lifo"]

SCOPE = "BUDGETFRONTIER_PRIORITY_SCOPE"
SCOPES = ("host", "crawl")

_STEP = 4096  # priorities of the frontier for each priority of Scrapy
_HIGHEST = (1 << 31) // _STEP - 1  # beyond it, and below its negative, priorities count as equal
_PRIORITY_QUEUE = "SCHEDULER_PRIORITY_QUEUE"
_EQUIVALENT = {"host": "DownloaderAwarePriorityQueue", "crawl": "ScrapyPriorityQueue"}

log = logging.getLogger(__name__)


class RequestOrder(NamedTuple):
    """The order of requests that Scrapy's settings ask for."""

    others: Direction
    """The order of requests of one priority, start requests apart."""
    start: Direction | None
    """The order of start requests, which wait behind others of their priority; None: they are treated like others."""
    across_hosts: bool
    """Whether priorities are compared between all requests of the crawl, rather than within a host."""


def order(scrapy: Any) -> RequestOrder:
    """Return the order that the settings ask for; log those that have no effect. Raises SettingsError."""
    scope = scrapy.get(SCOPE) or "host"
    if scope not in SCOPES:
        raise SettingsError(f'{SCOPE} is "host" or "crawl", not {scope!r}{did_you_mean(scope, ("host", "crawl"))}')
    kind = "DISK" if scrapy["JOBDIR"] else "MEMORY"
    others = _direction(scrapy, f"SCHEDULER_{kind}_QUEUE", "lifo") or "lifo"
    start = _direction(scrapy, f"SCHEDULER_START_{kind}_QUEUE", "fifo")
    _warn_of_priority_queue(scrapy, scope)
    return RequestOrder(others, start, scope == "crawl")


def _direction(scrapy: Any, setting: str, default: Direction) -> Direction | None:
    """Return the direction of a queue class, by its name or that of a base class; None if the setting is None."""
    spec = scrapy[setting]
    if not spec:
        return None
    for kind in getattr(load_object(spec), "__mro__", ()):  # Scrapy wraps the classes of queuelib in anonymous ones
        if found := re.search("fifo|lifo", kind.__name__, re.IGNORECASE):
            return "lifo" if found[0].lower() == "lifo" else "fifo"
    log.warning("%s: nothing in the name of %s says FIFO or LIFO; it is taken for %s", setting, spec, default.upper())
    return default


def _warn_of_priority_queue(scrapy: Any, scope: str) -> None:
    """Log that the priority queue which the project sets is not used, unless it orders as the frontier does."""
    spec = scrapy[_PRIORITY_QUEUE]
    if not scrapy.getpriority(_PRIORITY_QUEUE) or load_object(spec).__name__ == _EQUIVALENT[scope]:
        return
    log.warning(
        "%s: %s is not used; %s",
        _PRIORITY_QUEUE,
        spec,
        f'a priority counts among the requests of a host, and hosts take turns, unless {SCOPE} is "crawl"'
        if scope == "host"
        else f'{SCOPE} is "crawl": a priority counts among all requests',
    )


class PriorityMapping:
    """A mapping of Scrapy's order to the frontier's priorities: by priority, start requests last within each.

    Each priority of Scrapy has 4,096 priorities of the frontier; the highest is for all requests but start requests.
    Where start requests are ordered the other way round than the frontier orders URIs of one priority, each start
    request takes the next priority, from the top (FIFO) or from the bottom (LIFO). The count starts again once no start
    request is waiting.
    """

    def __init__(self, *, start: Direction | None, lifo: bool) -> None:
        self._start, self._numbered = start, (start == "lifo") != lifo
        self._last_offset = self._waiting = 0

    def priority(self, request: Any) -> int:
        """Return the priority that a request gets in the frontier, and count it if it is a start request."""
        top = (min(max(request.priority, -_HIGHEST), _HIGHEST) + 1) * _STEP - 1
        if not self._is_start(request):
            return int(top)
        self._waiting += 1
        if not self._numbered:
            return int(top) - 1
        self._last_offset = min(self._last_offset + 1, _STEP - 1)
        return int(top) - (self._last_offset if self._start == "fifo" else _STEP - self._last_offset)

    def remove(self, request: Any) -> None:
        """Count a request out that was handed out, or not admitted."""
        if self._is_start(request):
            self._waiting -= 1
            if self._waiting <= 0:
                self._waiting = self._last_offset = 0

    def _is_start(self, request: Any) -> bool:
        return self._start is not None and bool(request.meta.get("is_start_request"))
