"""The rules of robots.txt files by site (RFC 9309): known, awaited or given up, and their permissions.

The results are stored in the crawl's cache on disk, and in this process for the sites used last. `prerequisites`
describes how a robots.txt is fetched, `robots_txt` its meaning.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from functools import partial

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import Outcome
from budgetfrontier.core.uris import site_of
from budgetfrontier.crawler.cache import CrawlCache, StoredRobots
from budgetfrontier.crawler.fetch.response import FetchResult, cause_of
from budgetfrontier.crawler.robots_txt import Group, Rules, group_for, parsed_part
from budgetfrontier.crawler.threads import in_thread

LIFETIME = 86400.0
"""The most seconds for which rules apply after their fetch: RFC 9309, section 2.4."""

STALE_LIFETIME = 3600.0
"""Seconds for which expired rules continue to apply if their host does not respond, as section 2.4 allows."""

_MOST_WAITED_FOR = 10_000  # sites with an awaited or unreachable robots.txt
_SITE_SIZE, _RULE_SIZE = 2048, 800  # approximate bytes in memory of a site, and of each of its rules
_INCOMPLETE = frozenset({"timeTrunc", "connTrunc", "badEncoding"})  # notes of a possibly incomplete body
_LARGE = 16 * 1024  # bytes of rules from which matching, which then takes milliseconds, is done in a thread


class Permission(Enum):
    """The permission of robots.txt to fetch a URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    LATER = "later"  # its robots.txt has not been received yet
    POSTPONED = "postponed"  # its robots.txt waits for a host that it redirects to
    STOPPED = "stopped"  # its robots.txt will not be received in this run
    UNREACHABLE = "unreachable"  # its robots.txt is unreachable: everything is disallowed


class _Site:
    """A site with known rules."""

    __slots__ = ("delay", "expires", "is_large", "rules", "size")

    def __init__(self, group: Group, expires: float) -> None:
        self.rules, self.delay, self.expires = Rules(group), group.delay, expires
        self.size = _SITE_SIZE + _RULE_SIZE * group.rules.count("\n") + 2 * len(group.rules)
        self.is_large = len(group.rules) >= _LARGE


class _Awaited:
    """A site with unknown rules: its robots.txt is awaited, failing, postponed, or given up."""

    __slots__ = ("failing", "failure", "given_up", "postponed", "settled")

    def __init__(self) -> None:
        self.failing = False
        self.given_up: float | None = None  # until when, epoch seconds
        self.failure = ""  # the cause for which it was given up
        self.postponed: float | None = None  # until when, for a host that it redirects to
        self.settled = asyncio.Event()


class Robots:
    """The robots.txt rules of the sites (scheme and authority) of a crawl, for the product token `agent`.

    Fetched files are stored in `cache` for `lifetime` seconds. The rules of the sites used last are kept parsed, in
    about `limit` bytes; reading those of another site again takes 0.1 ms. `now` returns epoch seconds.
    """

    def __init__(
        self,
        agent: str,
        *,
        cache: CrawlCache,
        lifetime: float = LIFETIME,
        limit: int = 32 << 20,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.agent = agent.lower()
        self.lifetime = lifetime
        self._cache, self._now = cache, now
        self._sites: BoundedCache[str, _Site] = BoundedCache(limit, lambda site: site.size)
        self._awaited: OrderedDict[str, _Awaited] = OrderedDict()
        self._stopped = False
        self._thread = asyncio.Lock()

    def is_needed(self, url: str) -> bool:
        """Return whether the robots.txt for a URL has to be fetched first: it is neither known nor awaited."""
        key = site_of(url)
        return self._known(key) is None and self._waiting(key) is None

    def has_rules(self, url: str) -> bool:
        """Return whether unexpired rules for this URL are known, so that its robots.txt need not be fetched."""
        return self._known(site_of(url)) is not None

    def expect(self, url: str) -> None:
        """Record that the robots.txt of this URL's site is being fetched."""
        key = site_of(url)
        site = self._awaited.get(key)
        if site is None or site.given_up is not None or site.settled.is_set():
            self._await(key)
        else:
            site.failing = False

    def postpone(self, url: str, until: float) -> None:
        """Record that a robots.txt, and its queue, wait until a time: pages do not occupy a worker meanwhile."""
        site = self._await(site_of(url))
        site.postponed = until
        site.settled.set()

    def postponed(self, url: str) -> float:
        """Return the seconds for which the robots.txt of this URL's site is still postponed; 0.0 if it is not."""
        site = self._waiting(site_of(url))
        return 0.0 if site is None or site.postponed is None else site.postponed - self._now()

    def record(self, url: str, response: FetchResult) -> Outcome:
        """Record the response to a robots.txt request, and return the outcome of its URI (RFC 9309, section 2.3.1).

        - 2xx: its rules apply. 3xx (one redirect too many) and 4xx: there are no rules.
        - 429, 5xx, no response, or an incomplete one: the previous rules continue to apply, if they are known;
          otherwise it is retried like any URI.
        - Invalid responses: likewise, but without previous rules it is a dead letter, as are the pages that need it.

        Raises StorageFull.
        """
        stored = self.interpret(response)
        if stored is not None:
            self.store(url, stored)
            return Outcome.SUCCESS
        key = site_of(url)
        old = self._cache.robots(key)
        if old is not None and old.status < 300:
            self.store(url, old._replace(expires=self._now() + min(STALE_LIFETIME, self.lifetime)))
            return Outcome.SUCCESS
        if response.outcome is Outcome.FAILURE:
            self.give_up(url, cause_of(response))
            return Outcome.DEAD
        site = self._await(key)
        site.failing = True
        return Outcome.RETRY

    def interpret(self, response: FetchResult) -> StoredRobots | None:
        """Return the robots.txt in a response; None if it could not be fetched, or is incomplete."""
        status = response.status
        if 200 <= status < 300 and _INCOMPLETE.isdisjoint(response.notes):
            return StoredRobots(status, self._now() + self.lifetime, parsed_part(response))
        if 300 <= status < 500 and status != 429:
            return StoredRobots(status, self._now() + self.lifetime, b"")
        return None

    def is_fresh(self, stored: StoredRobots) -> bool:
        """Return whether a stored robots.txt is unexpired; one that expires too late, due to a wrong clock, is not."""
        now = self._now()
        return now < stored.expires <= now + self.lifetime

    def store(self, url: str, stored: StoredRobots) -> None:
        """Store a robots.txt for the site of a URL; its rules apply from now on. Raises StorageFull."""
        key = site_of(url)
        self._cache.put_robots(key, stored, now=self._now())
        self._cache_rules(key, stored)
        self._drop(key)

    def give_up(self, url: str, failure: str) -> None:
        """Record that a robots.txt is not retried for `lifetime` seconds; its site is disallowed meanwhile."""
        site = self._await(site_of(url))
        site.failure = failure
        site.given_up = self._now() + self.lifetime
        site.settled.set()

    def stop_waiting(self) -> None:
        """End all waits for robots.txt files: the crawl is stopping, and fetches no more of them."""
        if not self._stopped:
            self._stopped = True
            for site in self._awaited.values():
                site.settled.set()

    async def permission(self, url: str, *, patience: float) -> Permission:
        """Return whether a URL may be fetched; wait at most `patience` seconds for a robots.txt being fetched."""
        key = site_of(url)
        waiting = self._waiting(key)
        wait = waiting is not None and not waiting.failing and waiting.given_up is None and not self._stopped
        if waiting is not None and wait and self._known(key) is None:
            try:
                async with asyncio.timeout(patience):
                    await waiting.settled.wait()
            except TimeoutError:
                self._drop(key)  # it was lost: the next page requests it again
        site = self._known(key)
        if site is not None:
            return Permission.ALLOWED if await self._allows(site, url) else Permission.DISALLOWED
        waiting = self._waiting(key)
        if waiting is not None and waiting.given_up is not None:
            return Permission.UNREACHABLE
        if waiting is not None and waiting.postponed is not None:
            return Permission.POSTPONED
        return Permission.STOPPED if self._stopped else Permission.LATER

    def failure(self, url: str) -> str:
        """Return the cause for which the robots.txt of this URL's site was given up, "" if it was not."""
        site = self._waiting(site_of(url))
        return "" if site is None else site.failure

    def delay(self, url: str) -> float | None:
        """Return the crawl-delay for a URL in seconds; None if there is none, or it is not known."""
        site = self._known(site_of(url))
        return None if site is None else site.delay

    async def _allows(self, site: _Site, url: str) -> bool:
        if not site.is_large:
            return site.rules.allows(url)
        async with self._thread:  # one at a time: hostile rules take up to 0.2 s for a long URL
            return await in_thread(partial(site.rules.allows, url))

    # Sites with known rules

    def _known(self, key: str) -> _Site | None:
        """Return the unexpired rules of a site, from this process or from the cache on disk; None if there are none."""
        now = self._now()
        site = self._sites.get(key)
        if site is None:
            stored = self._cache.robots(key)
            if stored is None or not self.is_fresh(stored):
                return None
            return self._cache_rules(key, stored)
        if site.expires <= now:
            return None
        self._sites.refresh(key)
        return site

    def _cache_rules(self, key: str, stored: StoredRobots) -> _Site:
        site = _Site(group_for(self.agent, stored.body), stored.expires)
        self._sites.put(key, site)
        return site

    # Sites with unknown rules

    def _waiting(self, key: str) -> _Awaited | None:
        site = self._awaited.get(key)
        over = None if site is None else site.given_up or site.postponed
        return None if over is not None and over <= self._now() else site

    def _await(self, key: str) -> _Awaited:
        """Return a new entry for a site with an awaited robots.txt; those waiting on an old one are woken."""
        self._drop(key)
        while len(self._awaited) >= _MOST_WAITED_FOR:
            self._drop(next(iter(self._awaited)))
        site = self._awaited[key] = _Awaited()
        return site

    def _drop(self, key: str) -> None:
        site = self._awaited.pop(key, None)
        if site is not None:
            site.settled.set()
