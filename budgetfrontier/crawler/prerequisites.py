"""Prerequisites of pages: when the robots.txt of a site is fetched, and from where if it redirects.

A robots.txt is fetched as a URI of its own, with directive HIGHEST and cost 0 in the queue of the page that needs it.
Thus politeness applies to it, and the pages of the queue come after it.

It may redirect to any host, hop by hop (RFC 9309, section 2.3.1.2). Each hop is a visit of its own. Until the
politeness of the target host allows it, the URI waits in the queue of its own site. The result of each hop is cached by
URL, so that a target that a thousand sites redirect to is fetched once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.core.model import Admission, CrawlUri, Directive, Lease, Outcome
from budgetfrontier.core.uris import robots_url
from budgetfrontier.crawler.cache import CrawlCache, StoredRobots
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.host_delays import HostDelays
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.crawler.robots_redirects import RobotsRedirects
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.rules.backoff import OVERLOADED
from budgetfrontier.settings.overrides import QueueSettings

_SOON = 1.0  # seconds until the next hop is fetched or postponed


def robots_uri(lease: Lease) -> CrawlUri:
    """Return the robots.txt to fetch before the URI of a lease: the prerequisite, in its queue and ahead of all."""
    return CrawlUri(
        robots_url(lease.uri.url),
        via=lease.uri.url,
        hops=lease.uri.hops + "P",
        source=lease.uri.source,
        force=True,
        queue=lease.queue,
        directive=Directive.HIGHEST,
        cost=0,
    )


def is_robots(uri: CrawlUri) -> bool:
    """Return whether a URI is a robots.txt fetched as a prerequisite, not as a page."""
    return uri.hops.endswith("P") and uris.split(uri.url)[1:] == ("/robots.txt", None)


class RobotsResult(NamedTuple):
    """The result of a visit of a robots.txt: the outcome of the lease, and the least delay of its queue in seconds.

    `status` is that of the response if the host of the queue itself has given it, otherwise 0.
    """

    outcome: Outcome
    delay: float | None = None
    status: int = 0


def retry_wait(response: FetchResult, settings: QueueSettings) -> float:
    """Return the seconds until a failed request is repeated: a Retry-After, up to the longest back-off."""
    asked = response.retry_after
    return settings.retry_delay if asked is None else min(asked, settings.backoff_max_delay)


class Prerequisites:
    """The scheduling of robots.txt files in one run. `now` returns epoch seconds."""

    def __init__(
        self,
        frontier: Frontier,
        robots: Robots,
        cache: CrawlCache,
        delays: HostDelays,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._frontier, self._internals = frontier, frontier.internals
        self._robots, self._delays, self._now = robots, delays, now
        self._redirects = RobotsRedirects(robots, cache, now=now)
        self._in_flight: dict[int, tuple[CrawlUri, str]] = {}  # by lease: the URI requested, and the queue of its host

    def request_for(self, lease: Lease) -> CrawlUri | FetchResult | None:
        """Return the URI to fetch for a lease: its own, or the target that its robots.txt redirects to.

        Returns a FetchResult instead if the request failed a moment ago for another site. Returns None if the lease has
        been finished here: the URI was put back, behind its robots.txt or until a host may be requested, or it is a
        robots.txt that is known already.
        """
        if rest := self._delays.remaining_delay(lease.queue):
            self._put_back(lease, rest, "its host was asked for a robots.txt")
            return None
        if is_robots(lease.uri):
            return self._next_hop(lease)
        if (left := self._robots.postponed(lease.uri.url)) > 0.0:
            self._put_back(lease, left, "its robots.txt waits for another host")
            return None
        if self._robots.is_needed(lease.uri.url):
            self._robots.expect(lease.uri.url)
            if self._frontier.schedule(robots_uri(lease)) is Admission.ADDED:
                self._frontier.finish(lease, Outcome.DEFERRED, reason="robots.txt first")
                return None
        return lease.uri

    def _next_hop(self, lease: Lease) -> CrawlUri | FetchResult | None:
        uri = lease.uri
        if self._robots.has_rules(uri.url):  # after a crash between the commits of the cache and the frontier
            self._frontier.finish(lease, Outcome.DISREGARDED, reason="known already")
            return None
        self._robots.expect(uri.url)
        hop = self._redirects.follow(uri)
        if isinstance(hop, StoredRobots):
            self._robots.store(uri.url, hop)
            self._frontier.finish(lease, Outcome.DISREGARDED, reason="known from another host")
            return None
        if hop is uri:
            key = lease.queue
        else:
            if failed := self._redirects.recent_failure(hop.url):
                return failed
            key = self._queue_of(hop)
            if key != lease.queue:
                settings, queue = self._settings_for(lease, hop, key), self._frontier.queue(key)
                wait = self._delays.begin(key, hop.url, settings, queue)
                if wait > 0.0:
                    self._robots.postpone(uri.url, self._now() + wait)
                    self._put_back(lease, wait, f"waits for {key}")
                    return None
        self._in_flight[lease.id] = hop, key
        return hop

    def record(self, lease: Lease, response: FetchResult) -> RobotsResult:
        """Record the FetchResult of a robots.txt, fetched or returned by `request_for`; return the result."""
        uri = lease.uri
        hop, key = self._in_flight.pop(lease.id, (None, lease.queue))
        if hop is None:
            return self._record_final(lease, response, 0)
        settings = self._settings_for(lease, hop, key)
        rest = 0.0
        if response.seconds is not None:  # otherwise no request was sent
            delay = self._robots.delay(hop.url)
            rest = self._internals.rest(hop, key, fetch_seconds=response.seconds, crawl_delay=delay)
        if self._redirects.leads_on(hop, response):
            result = RobotsResult(Outcome.DEFERRED, rest if key == lease.queue else None)
            self._robots.postpone(uri.url, self._now() + max(result.delay or 0.0, _SOON))
        else:
            self._redirects.share(uri, hop, response, until=self._now() + settings.retry_delay)
            result = self._record_final(
                lease, response, response.status if key == lease.queue and response.status in OVERLOADED else 0
            )
        if key != lease.queue:
            failed = retry_wait(response, settings) if response.outcome is Outcome.RETRY else 0.0
            self._delays.end(key, max(rest, failed))
        return result

    def put_back(self, lease: Lease, seconds: float) -> None:
        """Forget the request for a robots.txt that was not made, as its lease goes back for so many seconds."""
        _, key = self._in_flight.pop(lease.id, (None, lease.queue))
        if key != lease.queue:
            self._delays.end(key, 0.0)
        self._robots.postpone(lease.uri.url, self._now() + seconds)

    def _record_final(self, lease: Lease, response: FetchResult, status: int) -> RobotsResult:
        """Record the response at the end of the redirects. Pages are postponed while the robots.txt is retried."""
        url, delay = lease.uri.url, response.retry_after
        outcome = self._robots.record(url, response)
        if outcome is Outcome.RETRY:
            wait = retry_wait(response, self._internals.settings_for(lease))
            self._robots.postpone(url, self._now() + wait + _SOON)
        return RobotsResult(outcome, delay, status)

    def _put_back(self, lease: Lease, wait: float, why: str) -> None:
        self._frontier.finish(lease, Outcome.DEFERRED, delay=wait, reason=why)

    def _queue_of(self, uri: CrawlUri) -> str:
        try:
            return self._internals.queue_key(uri)
        except ValueError:  # such a URI cannot be queued, but may be requested
            return uris.authority(uri.url)

    def _settings_for(self, lease: Lease, uri: CrawlUri, key: str) -> QueueSettings:
        return self._internals.settings_for(Lease(lease.id, key, uri, 0, 0.0, 1))
