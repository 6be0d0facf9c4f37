"""The redirects of robots.txt files: targets, final responses, and requests that have just failed."""

from __future__ import annotations

import time
from collections.abc import Callable

import can_ada

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.uris import robots_url, site_of
from budgetfrontier.crawler import links
from budgetfrontier.crawler.cache import CrawlCache, StoredRobots
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.robots import Robots

MOST_REDIRECTS = 5
_MOST_FAILED = 10_000

_TOO_MANY = 302  # the status stored for a longer chain, which means no rules


class RobotsRedirects:
    """The redirects of robots.txt files, in the crawl's cache by URL. `now` returns epoch seconds.

    A target to which a thousand sites redirect is thus fetched once.
    """

    def __init__(self, robots: Robots, cache: CrawlCache, *, now: Callable[[], float] = time.time) -> None:
        self._robots, self._cache, self._now = robots, cache, now
        self._failed: BoundedCache[str, tuple[float, FetchResult]] = BoundedCache(_MOST_FAILED)
        """Failed responses by URL, each with the time until which it applies."""

    def follow(self, uri: CrawlUri) -> CrawlUri | StoredRobots:
        """Return the next hop to fetch for a robots.txt, or the cached result at the end of its redirects."""
        hop = uri
        for _ in range(MOST_REDIRECTS + 1):
            stored = self._cached(hop.url)
            if stored is None:
                return hop
            if not stored.body or not 300 <= stored.status < 400:
                return stored
            target = stored.body.decode()
            hop = CrawlUri(target, via=hop.url, hops=hop.hops + "R", source=uri.source)
        return StoredRobots(_TOO_MANY, self._now() + self._robots.lifetime, b"")

    def leads_on(self, hop: CrawlUri, response: FetchResult) -> bool:
        """Return whether a response redirects; its target is cached, so that `follow` returns it."""
        target = links.resolve(can_ada.parse(hop.url), response.location)
        if target is not None:
            self._store(hop.url, StoredRobots(response.status, 0.0, target.encode()))
        return target is not None

    def share(self, uri: CrawlUri, hop: CrawlUri, response: FetchResult, *, until: float) -> None:
        """Cache the response at the end of the redirects of a robots.txt for all sites that redirect there.

        A failure applies until a time.
        """
        if hop is uri:
            return
        stored = self._robots.interpret(response)
        if stored is None:
            self._failed.put(hop.url, (until, response))
        elif hop.url == robots_url(hop.url):
            self._robots.store(hop.url, stored)
        else:
            self._store(hop.url, stored)

    def recent_failure(self, url: str) -> FetchResult | None:
        """Return the recent failure of this URL, requested for another site; None if there is none."""
        until, response = self._failed.get(url, (0.0, None))
        if response is None or until <= self._now():
            return None
        return FetchResult(
            status=response.status, reason=f"{response.reason or response.status} at {url}, asked for another host"
        )

    def _cached(self, url: str) -> StoredRobots | None:
        """Return the fresh cached result of a URL, stored for the URL itself or as the robots.txt of its site."""
        for key in (url, site_of(url)) if url == robots_url(url) else (url,):
            stored = self._cache.robots(key)
            if stored is not None and self._robots.is_fresh(stored):
                return stored
        return None

    def _store(self, url: str, stored: StoredRobots) -> None:
        now = self._now()
        self._cache.put_robots(url, stored._replace(expires=now + self._robots.lifetime), now=now)
