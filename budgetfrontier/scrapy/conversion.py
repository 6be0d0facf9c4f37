"""Conversion of a request to the URI that the frontier is given: its URL, its queue, its cost."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri

COST, QUEUE, BUDGET = "budgetfrontier_cost", "budgetfrontier_queue", "budgetfrontier_budget"
"""What a spider may say in request.meta."""

STARTED = "budgetfrontier_started"
"""Set in the meta of a start request when it goes out, so that its retries and redirects are told from it."""


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


def crawl_uri(request: Any, url: str, *, queue: object, payload: bytes, method: str, priority: int) -> CrawlUri:
    """The URI of a request, without `force`. Raises Refused for what a spider may not say of it."""
    cost = request.meta.get(COST)
    if cost is not None and (type(cost) is not int or cost < 0):
        raise Refused(f"{COST} is a whole number, not {cost!r}")
    if queue is not None and type(queue) is not str:
        raise Refused(f"{QUEUE} is text, not {queue!r}")
    return CrawlUri(url, method=method, body=request.body, payload=payload, queue=queue, priority=priority, cost=cost)
