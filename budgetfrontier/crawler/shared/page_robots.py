"""The robots.txt of a page, fetched with the lease of the page.

Which process gets a URI of a shared frontier is not known, and each has a cache of its own. So a robots.txt is no URI
in a queue here: the process that is to fetch a page fetches its robots.txt first, lets the host rest, and fetches the
page then. The lease keeps the host's turn meanwhile; where `min_interval` keeps turns apart, the page goes back and has
the next one. If the robots.txt fails, the page goes back for as long as a retry waits.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri, Lease, Outcome
from budgetfrontier.core.uris import site_of
from budgetfrontier.crawler.cache import StoredRobots
from budgetfrontier.crawler.fetch.response import FetchResult, PutBack, cause_of
from budgetfrontier.crawler.host_delays import HostDelays
from budgetfrontier.crawler.prerequisites import retry_wait, robots_uri
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.crawler.robots_redirects import RobotsRedirects
from budgetfrontier.crawler.shared.server_calls import Questions
from budgetfrontier.settings.overrides import QueueSettings

LONGEST_REST = 10.0
"""Seconds for which a page waits with its lease for the host to which its robots.txt redirects; else it goes back."""

_SOON = 1.0  # seconds until a robots.txt is asked for again, besides its delay
_MOST_FAILING = 10_000

_FAILING, _STOPPING = "robots.txt did not answer yet", "the crawl is stopping"


class PageRobots:
    """The fetches of robots.txt files in one run.

    `fetch` makes a request with the lease of the page, `sitemaps` returns the URIs in a robots.txt that are to be
    crawled, `write` writes a request to the outputs, with the outcome; `rest` waits so many seconds, or returns False
    if the crawl is stopping.
    """

    def __init__(
        self,
        questions: Questions,
        robots: Robots,
        redirects: RobotsRedirects,
        *,
        fetch: Callable[[Lease, CrawlUri], Awaitable[FetchResult]],
        sitemaps: Callable[[CrawlUri, FetchResult], list[CrawlUri]],
        write: Callable[[Lease, CrawlUri, FetchResult, Outcome], None],
        rest: Callable[[float], Awaitable[bool]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._questions, self._robots, self._redirects, self._now = questions, robots, redirects, now
        self._delays = HostDelays(now=now)
        self._fetch, self._sitemaps, self._write, self._rest = fetch, sitemaps, write, rest
        self._tries: BoundedCache[str, int] = BoundedCache(_MOST_FAILING)  # by site: failures in a row

    async def prepare(self, lease: Lease) -> None:
        """Fetch the robots.txt of a page if it is not known, and wait until the page may be fetched.

        Raises PutBack if that is not to be now. If the robots.txt is given up, or another visit fetches it,
        `Robots.permission` says so.
        """
        url = lease.uri.url
        if wait := self._delays.remaining_delay(lease.queue):
            await self._pause(wait)
        if (left := self._robots.postponed(url)) > 0.0:
            raise PutBack(left, "its robots.txt waits")
        if self._robots.is_needed(url):
            self._robots.expect(url)
            await self._obtain(lease, robots_uri(lease))

    async def _obtain(self, lease: Lease, uri: CrawlUri) -> None:
        """Fetch a robots.txt through its redirects."""
        while True:
            hop = self._redirects.follow(uri)
            if isinstance(hop, StoredRobots):
                self._robots.store(uri.url, hop)
                return
            key = lease.queue
            if hop is not uri:
                if failed := self._redirects.recent_failure(hop.url):
                    if (again := self._record(lease, uri, hop, failed)) is not None:
                        raise PutBack(again, _FAILING)
                    return
                key = await self._queue_of(hop)
                if key != lease.queue and not await self._has_turn(lease, uri, hop, key):
                    continue  # another visit may have asked meanwhile
            if not await self._request(lease, uri, hop, key):
                return

    async def _request(self, lease: Lease, uri: CrawlUri, hop: CrawlUri, key: str) -> bool:
        """Make one request, and let the host rest; return whether the response leads on. Raises PutBack."""
        try:
            response = await self._fetch(lease, hop)
        except PutBack:
            self._robots.postpone(uri.url, self._now())  # another visit may ask for it
            if key != lease.queue:
                self._delays.end(key, 0.0)
            raise
        if found := self._sitemaps(uri, response):
            await self._questions.schedule_many(found)  # before the rules are stored: it would not be fetched again
        again: float | None = None
        if leads_on := self._redirects.leads_on(hop, response):
            self._write(lease, hop, response, Outcome.SUCCESS)
        else:
            again = self._record(lease, uri, hop, response)
        rest, settings = await self._rest_after(hop, key, response), self._settings_for(lease, hop, key)
        if key != lease.queue:
            failed = retry_wait(response, settings) if response.outcome is Outcome.RETRY else 0.0
            self._delays.end(key, max(rest, settings.min_interval, failed))
            rest = 0.0
        if again is not None:
            raise PutBack(max(again, rest), _FAILING)
        if key == lease.queue and response.seconds is not None:
            if settings.min_interval > 0.0:  # it is kept between leases, so that the page needs another one
                if leads_on:
                    self._robots.postpone(uri.url, self._now())
                raise PutBack(rest, "robots.txt first")
            await self._pause(rest)
        return leads_on

    def _record(self, lease: Lease, uri: CrawlUri, hop: CrawlUri, response: FetchResult) -> float | None:
        """Record and write the response at the end of the redirects.

        Returns the seconds until another try, None if there is to be none.
        """
        settings, site = self._questions.settings_for(lease), site_of(uri.url)
        self._redirects.share(uri, hop, response, until=self._now() + self._settings_for(lease, hop).retry_delay)
        outcome = self._robots.record(uri.url, response)
        self._write(lease, hop, response, outcome)
        if outcome is not Outcome.RETRY:
            self._tries.put(site, 0)
            return None
        tries = self._tries.get(site, 0) + 1
        self._tries.put(site, tries)
        if tries > settings.max_retries:
            self._robots.give_up(uri.url, cause_of(response))
            return None
        wait = retry_wait(response, settings)
        self._robots.postpone(uri.url, self._now() + wait + _SOON)
        return wait

    async def _has_turn(self, lease: Lease, uri: CrawlUri, hop: CrawlUri, key: str) -> bool:
        """Return whether a host may be asked outside its queue's turn; if not, wait. Raises PutBack if that is long."""
        queue = await self._questions.queue(key)
        wait = self._delays.begin(key, hop.url, self._settings_for(lease, hop, key), queue)
        if wait > LONGEST_REST:
            self._robots.postpone(uri.url, self._now() + wait)
            raise PutBack(wait, f"waits for {key}")
        if wait > 0.0:
            await self._pause(wait)
        return wait <= 0.0

    async def _rest_after(self, hop: CrawlUri, key: str, response: FetchResult) -> float:
        """Return how long a host is to rest after a request."""
        if response.seconds is None:  # no request was sent
            return 0.0
        delay = self._robots.delay(hop.url)
        return await self._questions.rest(hop, key, fetch_seconds=response.seconds, crawl_delay=delay)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0.0 and not await self._rest(seconds):
            raise PutBack(seconds, _STOPPING)

    async def _queue_of(self, uri: CrawlUri) -> str:
        try:
            return await self._questions.queue_key(uri)
        except ValueError:  # such a URI cannot be queued, but may be requested
            return uris.authority(uri.url)

    def _settings_for(self, lease: Lease, uri: CrawlUri, key: str | None = None) -> QueueSettings:
        """Return the settings in force for a URI on a queue."""
        return self._questions.settings_for(Lease(lease.id, key or lease.queue, uri, 0, 0.0, 1))
