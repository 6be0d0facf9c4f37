"""The visits of a crawler that shares its frontier: the robots.txt of a page is fetched in the page's own visit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from budgetfrontier.core.model import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.fetch.response import ROBOTS_PRECLUDED, FetchResult
from budgetfrontier.crawler.prerequisites import is_robots
from budgetfrontier.crawler.visit import Visit, Visitor


class SharedVisitor:
    """A visitor that calls `prepare` with the lease of a page before the visit; None if robots.txt is ignored."""

    def __init__(self, visitor: Visitor, prepare: Callable[[Lease], Awaitable[None]] | None) -> None:
        self._visitor, self._prepare = visitor, prepare

    def refusal(self, uri: CrawlUri) -> Visit | None:
        """Return the result of a visit that ends without a fetch; None if the URI may be fetched.

        A crawler with a frontier of its own may have left a robots.txt in a queue, which nobody waits for here.
        """
        if self._prepare and is_robots(uri):
            response = FetchResult(status=ROBOTS_PRECLUDED, reason="fetched with each page that needs it")
            return Visit(uri, response, Outcome.DISREGARDED)
        return self._visitor.refusal(uri)

    async def visit(self, lease: Lease, asked: CrawlUri) -> Visit:
        """Fetch the URI of a lease, after its robots.txt. Raises PutBack."""
        if self._prepare:
            await self._prepare(lease)
        return await self._visitor.visit(lease, asked)
