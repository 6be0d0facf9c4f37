"""What has to be fetched before a page, which is its robots.txt: where it is asked for, and when.

A robots.txt may redirect to any host, hop by hop (RFC 9309, section 2.3.1.2). Each hop is a visit of its own: it waits
until the queue of the host that it goes to may be asked, in the queue of the host that sent it there. What a hop gave
is kept by its URL, so that a thousand hosts that are sent to the same place ask there once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import can_ada

from budgetfrontier.bounded_cache import BoundedCache
from budgetfrontier.crawl import links
from budgetfrontier.crawl.cache import CrawlCache, StoredRobots
from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.host_delays import HostDelays
from budgetfrontier.crawl.robots import Robots, is_robots, site_of
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.model import Admission, CrawlUri, Lease, Outcome

MOST_REDIRECTS = 5
_SOON = 1.0  # seconds: until the next hop is asked for, or has to wait
_MOST_FAILED = 10_000

_TOO_MANY = 302  # the status of a chain that goes on for longer: no rules


class Ended(NamedTuple):
    """How the visit of a robots.txt ended: for its lease, and how long its queue rests at least."""

    outcome: Outcome
    delay: float | None = None


class Prerequisites:
    """Sees to the robots.txt files of one run. `now` tells epoch seconds."""

    def __init__(
        self,
        frontier: Frontier,
        robots: Robots,
        cache: CrawlCache,
        pace: HostDelays,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._frontier, self._robots, self._cache, self._pace, self._now = frontier, robots, cache, pace, now
        self._out: dict[int, tuple[CrawlUri, str]] = {}  # by lease: what is asked, and of which queue
        self._failed: BoundedCache[str, tuple[float, Response]] = BoundedCache(_MOST_FAILED)
        """By URL: until when that counts, and what came."""

    def ask(self, lease: Lease) -> CrawlUri | Response | None:
        """Return what to fetch for a lease: its URI, or where its robots.txt redirects to.

        A Response is what others got there a moment ago. None if the lease was finished: the URI goes back, behind its
        robots.txt or until a host may be asked, or it is not needed any more.
        """
        if rest := self._pace.rest_left(lease.queue):
            self._put_back(lease, rest, "its host was asked for a robots.txt")
            return None
        if is_robots(lease.uri):
            return self._ask_robots(lease)
        if (left := self._robots.postponed(lease.uri.url)) > 0.0:
            self._put_back(lease, left, "its robots.txt waits for another host")
            return None
        asked = self._robots.prerequisite(lease)
        if asked is not None:
            self._robots.expect(asked.url)
            if self._frontier.schedule(asked) is Admission.ADDED:
                self._frontier.finish(lease, Outcome.DEFERRED, reason="robots.txt first")
                return None
        return lease.uri

    def _ask_robots(self, lease: Lease) -> CrawlUri | Response | None:
        uri = lease.uri
        if self._robots.knows(uri.url):  # a crash came between the commits of the memory and the frontier
            self._frontier.finish(lease, Outcome.DISREGARDED, reason="known already")
            return None
        self._robots.expect(uri.url)
        hop = self._follow(uri)
        if isinstance(hop, StoredRobots):
            self._robots.learn(uri.url, hop)
            self._frontier.finish(lease, Outcome.DISREGARDED, reason="known from another host")
            return None
        if hop is uri:
            key = lease.queue
        else:
            if failed := self._failure(hop.url):
                return failed
            key = self._pace.queue_of(hop)
            if key != lease.queue:
                wait = self._pace.ask(key, hop.url, self._pace.settings_for(lease, hop, key))
                if wait > 0.0:
                    self._robots.postpone(uri.url, self._now() + wait)
                    self._put_back(lease, wait, f"waits for {key}")
                    return None
        self._out[lease.id] = hop, key
        return hop

    def ended(self, lease: Lease, answer: Response) -> Ended:
        """Take in what the fetch for a robots.txt gave; what `ask` has returned as a Response, too."""
        uri = lease.uri
        hop, key = self._out.pop(lease.id, (None, lease.queue))
        if hop is None:
            return self._recorded(lease, answer)
        retry_delay = self._pace.settings_for(lease, hop, key).retry_delay
        rest = 0.0
        if answer.seconds is not None:  # else nothing was sent
            delay = self._robots.delay(hop.url)
            rest = self._frontier.rest(hop, key, fetch_seconds=answer.seconds, crawl_delay=delay)
        target = links.resolve(can_ada.parse(hop.url), answer.location)
        if target is not None:
            self._keep(hop.url, StoredRobots(answer.status, 0.0, target.encode()))
            ended = Ended(Outcome.DEFERRED, rest if key == lease.queue else None)
            self._robots.postpone(uri.url, self._now() + max(ended.delay or 0.0, _SOON))
        else:
            self._share(uri, hop, answer, until=self._now() + retry_delay)
            ended = self._recorded(lease, answer)
        if key != lease.queue:
            failed = retry_delay if answer.outcome is Outcome.RETRY else 0.0
            self._pace.asked(key, max(rest, answer.retry_after or failed))
        return ended

    def _recorded(self, lease: Lease, answer: Response) -> Ended:
        """Take in what the end of the redirects gave. Pages wait for a robots.txt that is to be tried again."""
        url, delay = lease.uri.url, answer.retry_after
        outcome = self._robots.record(url, answer)
        if outcome is Outcome.RETRY:
            wait = self._frontier.settings_for(lease).retry_delay if delay is None else delay
            self._robots.postpone(url, self._now() + wait + _SOON)
        return Ended(outcome, delay)

    def _put_back(self, lease: Lease, wait: float, why: str) -> None:
        self._frontier.finish(lease, Outcome.DEFERRED, delay=wait, reason=why)

    # What is known of the redirects

    def _follow(self, uri: CrawlUri) -> CrawlUri | StoredRobots:
        """Return what is to be asked next for a robots.txt, or what is known at the end of its redirects."""
        hop = uri
        for _ in range(MOST_REDIRECTS + 1):
            stored = self._stored(hop.url)
            if stored is None:
                return hop
            if not stored.body or not 300 <= stored.status < 400:
                return stored
            target = stored.body.decode()
            hop = CrawlUri(target, via=hop.url, hops=hop.hops + "R", source=uri.source)
        return StoredRobots(_TOO_MANY, self._now() + self._robots.lifetime, b"")

    def _stored(self, url: str) -> StoredRobots | None:
        """What a URL gave, if it still counts: by itself, or as the robots.txt of its site."""
        for key in (url, site_of(url)) if url == site_of(url) + "/robots.txt" else (url,):
            stored = self._cache.robots(key)
            if stored is not None and self._robots.counts(stored):
                return stored
        return None

    def _share(self, uri: CrawlUri, hop: CrawlUri, answer: Response, *, until: float) -> None:
        """Keep what the end of the redirects gave, for all who are sent there."""
        if hop is uri:
            return
        stored = self._robots.understood(answer)
        if stored is None:
            self._failed.put(hop.url, (until, answer))
        elif hop.url == site_of(hop.url) + "/robots.txt":
            self._robots.learn(hop.url, stored)
        else:
            self._keep(hop.url, stored)

    def _keep(self, url: str, stored: StoredRobots) -> None:
        now = self._now()
        self._cache.put_robots(url, stored._replace(expires=now + self._robots.lifetime), now=now)

    def _failure(self, url: str) -> Response | None:
        """What another got at this URL a moment ago, if it could not be had."""
        until, answer = self._failed.get(url, (0.0, None))
        if answer is None or until <= self._now():
            return None
        return Response(
            status=answer.status, reason=f"{answer.reason or answer.status} at {url}, asked for another host"
        )
