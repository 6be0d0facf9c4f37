"""From a request to the URI that the frontier is given: its queue, its cost, its place in the order."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from scrapy.utils.httpobj import urlparse_cached

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri

COST, QUEUE, BUDGET = "budgetfrontier_cost", "budgetfrontier_queue", "budgetfrontier_budget"
"""What a spider may say in request.meta."""

STARTED = "budgetfrontier_started"
"""Set in the meta of a start request when it goes out, so that its retries and redirects are told from it."""

_STEP = 4096  # places of the frontier's order between two of Scrapy's priorities
_SLOT = "download_slot"


class Refused(ValueError):
    """What a request says in its meta cannot be; the message says why."""


def address(url: str) -> tuple[str, str | None]:
    """Return the URL under which the frontier keeps a request, and its queue if the URL does not tell.

    What has no host, such as file: and data:, is kept under a name that nobody can have (RFC 2606), on a queue for each
    scheme. Raises InvalidUrl.
    """
    try:
        return uris.parse(url), None
    except InvalidUrl as e:
        scheme = url.partition(":")[0].lower()
        if e.reason != "scheme" or not scheme.isalnum():
            raise
        digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return f"http://{scheme}.invalid/{digest}", f"{scheme}:"


def settle_slot(request: Any) -> str | None:
    """Return the download slot that the spider has set, if any; one that was merely inherited is taken out of meta.

    The downloader writes the host into meta as the slot, and a redirect to another host would take it along.
    """
    slot: object = request.meta.get(_SLOT)
    if slot is None:
        return None
    if slot == urlparse_cached(request).hostname or slot in tuple(_hosts_before(request)):
        del request.meta[_SLOT]
        return None
    return str(slot)


def _hosts_before(request: Any) -> Iterator[str | None]:
    urls = list(request.meta.get("redirect_urls", ())[-1:])
    if referer := request.headers.get("Referer"):
        urls.append(referer.decode("latin-1"))
    for url in urls:
        try:
            yield urlsplit(url).hostname
        except ValueError:
            continue


class Places:
    """Scrapy's order in the frontier's priorities: priority first, and start requests behind all others of theirs.

    Between two priorities of Scrapy's there are 4,096 places. In a frontier that is `lifo`, each start request takes
    the next lower one, so that those of a queue leave in the order they came in; they are given out anew once no start
    request is waiting.
    """

    def __init__(self, *, start_apart: bool, lifo: bool) -> None:
        self._start_apart, self._lifo = start_apart, lifo
        self._given = self._waiting = 0

    def priority(self, request: Any) -> int:
        """The frontier's priority of a request that comes in."""
        top = (request.priority + 1) * _STEP - 1
        if not self._is_start(request):
            return int(top)
        self._waiting += 1
        self._given += self._lifo
        return int(top) - max(1, min(self._given, _STEP - 1))

    def gone(self, request: Any) -> None:
        """A request left, or was not admitted."""
        if self._is_start(request):
            self._waiting -= 1
            if self._waiting <= 0:
                self._waiting = self._given = 0

    def _is_start(self, request: Any) -> bool:
        return self._start_apart and bool(request.meta.get("is_start_request"))


def crawl_uri(request: Any, url: str, *, queue: object, payload: bytes, method: str, priority: int) -> CrawlUri:
    """The URI of a request, without `force`. Raises Refused for what a spider may not say of it."""
    cost = request.meta.get(COST)
    if cost is not None and (type(cost) is not int or cost < 0):
        raise Refused(f"{COST} is a whole number, not {cost!r}")
    if queue is not None and type(queue) is not str:
        raise Refused(f"{QUEUE} is text, not {queue!r}")
    return CrawlUri(url, method=method, body=request.body, payload=payload, queue=queue, priority=priority, cost=cost)
