"""Conversion of a Scrapy request to a CrawlUri: its URL, queue, cost and label, and the budget of its queue."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.regulation import MOST_BUDGET
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.scrapy.serialization import MAX_STORED

COST, QUEUE, BUDGET = "budgetfrontier_cost", "budgetfrontier_queue", "budgetfrontier_budget"
LABEL = "budgetfrontier_label"
"""Keys of request.meta that a spider may set."""

STARTED = "budgetfrontier_started"
"""Set in the meta of a start request when it is handed out, to tell its retries and redirects from start requests."""


class InvalidMeta(ValueError):
    """An invalid value in the meta of a request; the message says why."""


def address(url: str) -> tuple[str, str | None]:
    """Return the URL under which the frontier stores a request, and its queue if it does not follow from the URL.

    URLs without a host, such as file: and data:, are stored under a reserved host name (`.invalid`, RFC 2606), on one
    queue per scheme. Raises InvalidUrl.
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
    """Return the CrawlUri of a request, `force` not set. Raises InvalidMeta for wrong values in its meta."""
    cost = request.meta.get(COST)
    if cost is not None and (type(cost) is not int or cost < 0):
        raise InvalidMeta(f"{COST} is a whole number, not {cost!r}")
    if queue is not None and type(queue) is not str:
        raise InvalidMeta(f"{QUEUE} is text, not {queue!r}")
    label = request.meta.get(LABEL)
    if label is not None and (type(label) is not str or not label):
        raise InvalidMeta(f"{LABEL} is text, not {label!r}")
    return CrawlUri(
        url,
        method=method,
        body=_stored_body(request.body),
        payload=payload,
        queue=queue,
        priority=priority,
        cost=cost,
        source=label,
    )


def _stored_body(body: bytes) -> bytes:
    """Return the body of a request; of one that is too long to be stored a digest, by which duplicates are found."""
    return body if len(body) <= MAX_STORED else blake2b(body).digest()


def wanted_budget(request: Any) -> int | None:
    """Return the total budget that a request asks for its queue, None if it asks for none. Raises InvalidMeta."""
    if BUDGET not in request.meta:
        return None
    budget = request.meta[BUDGET]
    if type(budget) is not int or not -1 <= budget <= MOST_BUDGET:
        raise InvalidMeta(f"{BUDGET} is a whole number, -1 for no limit, not {budget!r}")
    return budget


def set_budget(frontier: Frontier, uri: CrawlUri, budget: int) -> None:
    """Set the total budget of the queue of a URI that was scheduled, unless an operator has adjusted it.

    Raises PolicyError.
    """
    frontier.internals.regulate(frontier.internals.queue_key(uri), total_budget=budget)
