"""In which order requests go out: what a project's settings say of it, and how the frontier's priorities express it."""

from __future__ import annotations

import logging
import re
from typing import Any, Literal, NamedTuple

from scrapy.utils.misc import load_object

from budgetfrontier.errors import SettingsError

Way = Literal["fifo", "lifo"]

SCOPE = "BUDGETFRONTIER_PRIORITY_SCOPE"
SCOPES = ("host", "crawl")

_STEP = 4096  # places of the frontier's order between two of Scrapy's priorities
_PRIORITY_QUEUE = "SCHEDULER_PRIORITY_QUEUE"
_LIKE_OURS = {"host": "DownloaderAwarePriorityQueue", "crawl": "ScrapyPriorityQueue"}

log = logging.getLogger(__name__)


class Order(NamedTuple):
    """What Scrapy's settings say of the order."""

    others: Way
    """Of requests of one priority that are no start requests."""
    start: Way | None
    """Of start requests, which wait behind the others of their priority; None: they are like others."""
    across_hosts: bool
    """Whether priorities count among all requests of the crawl, and not among those of a host."""


def order(scrapy: Any) -> Order:
    """Read the settings; tells of those that cannot be followed. Raises SettingsError."""
    scope = scrapy.get(SCOPE) or "host"
    if scope not in SCOPES:
        raise SettingsError(f'{SCOPE} is "host" or "crawl", not {scope!r}')
    kind = "DISK" if scrapy["JOBDIR"] else "MEMORY"
    others = _way(scrapy, f"SCHEDULER_{kind}_QUEUE", "lifo") or "lifo"
    start = _way(scrapy, f"SCHEDULER_START_{kind}_QUEUE", "fifo")
    _tell_priority_queue(scrapy, scope)
    return Order(others, start, scope == "crawl")


def _way(scrapy: Any, setting: str, usual: Way) -> Way | None:
    """The way of a queue class, by its name or that of one it derives from; None if the setting is None."""
    spec = scrapy[setting]
    if not spec:
        return None
    for kind in getattr(load_object(spec), "__mro__", ()):  # Scrapy wraps those of queuelib in nameless ones
        if found := re.search("fifo|lifo", kind.__name__, re.IGNORECASE):
            return "lifo" if found[0].lower() == "lifo" else "fifo"
    log.warning("%s: nothing in the name of %s says FIFO or LIFO; it is taken for %s", setting, spec, usual.upper())
    return usual


def _tell_priority_queue(scrapy: Any, scope: str) -> None:
    """Tell of a priority queue that the project names, unless it does as the frontier does."""
    spec = scrapy[_PRIORITY_QUEUE]
    if not scrapy.getpriority(_PRIORITY_QUEUE) or load_object(spec).__name__ == _LIKE_OURS[scope]:
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
    """Scrapy's order in the frontier's priorities: priority first, and start requests behind all others of theirs.

    Between two priorities of Scrapy's there are 4,096 places, the first of which is for all but start requests. Where
    these go the other way than the frontier does, each takes the next place, from the top or from the bottom; the
    places are given out anew once no start request is waiting.
    """

    def __init__(self, *, start: Way | None, lifo: bool) -> None:
        self._start, self._apart = start, (start == "lifo") != lifo
        self._given = self._waiting = 0

    def priority(self, request: Any) -> int:
        """The frontier's priority of a request that comes in."""
        top = (request.priority + 1) * _STEP - 1
        if not self._is_start(request):
            return int(top)
        self._waiting += 1
        if not self._apart:
            return int(top) - 1
        self._given = min(self._given + 1, _STEP - 1)
        return int(top) - (self._given if self._start == "fifo" else _STEP - self._given)

    def gone(self, request: Any) -> None:
        """A request left, or was not admitted."""
        if self._is_start(request):
            self._waiting -= 1
            if self._waiting <= 0:
                self._waiting = self._given = 0

    def _is_start(self, request: Any) -> bool:
        return self._start is not None and bool(request.meta.get("is_start_request"))
