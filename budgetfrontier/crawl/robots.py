"""What robots.txt allows, for every authority that the crawl meets (RFC 9309).

A robots.txt is fetched as a URI of its own, a prerequisite with directive HIGHEST and cost 0 in the queue of the page
that needs it: so it waits its turn, and the pages after it, as politeness asks. This module remembers what came of it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from enum import Enum

from protego import Protego

from budgetfrontier import uris
from budgetfrontier.crawl.fetch.answer import Answer
from budgetfrontier.model import CrawlUri, Directive, Lease, Outcome

MAX_BODY = 500 * 1024
"""RFC 9309 asks crawlers to read at least this much."""

_NO_RULES = Protego.parse("")


class Verdict(Enum):
    """What robots.txt says about a URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    LATER = "later"  # its robots.txt did not answer yet
    UNREACHABLE = "unreachable"  # its robots.txt could not be had: all is disallowed


class _Site:
    """One authority: awaited until `rules` is set, or `given_up`."""

    __slots__ = ("expires", "failing", "given_up", "rules", "settled")

    def __init__(self) -> None:
        self.rules: Protego | None = None
        self.given_up = False
        self.failing = False
        self.expires = math.inf
        self.settled = asyncio.Event()


class Robots:
    """The robots.txt rules of the authorities met last, for one user agent.

    `lifetime` is how long rules count, in seconds; `limit` is how many authorities are remembered.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        lifetime: float = 86400.0,
        limit: int = 10_000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        # Only the product token counts: comments such as "+https://example.org/bot" would match other groups.
        self.agent = user_agent.replace("/", " ").split()[0]
        self._lifetime, self._limit, self._now = lifetime, limit, now
        self._sites: dict[str, _Site] = {}

    def prerequisite(self, lease: Lease) -> CrawlUri | None:
        """Return the robots.txt to fetch before this lease's URI; None if it is known, or awaited already."""
        key = site_of(lease.uri.url)
        site = self._sites.get(key)
        if site is not None and site.expires > self._now():
            return None
        return CrawlUri(
            key + "/robots.txt",
            via=lease.uri.url,
            hops=lease.uri.hops + "P",
            source=lease.uri.source,
            force=True,
            queue=lease.queue,
            directive=Directive.HIGHEST,
            cost=0,
        )

    def expect(self, url: str) -> None:
        """Note that the robots.txt of this URL's authority is on its way."""
        key = site_of(url)
        site = self._sites.get(key)
        if site is None or site.given_up or site.expires <= self._now():
            while len(self._sites) >= self._limit:
                self._drop(next(iter(self._sites)))
            self._sites[key] = _Site()
        else:
            site.failing = False

    def record(self, url: str, answer: Answer) -> Outcome:
        """Take in what the fetch of a robots.txt gave, and return how that fetch ends.

        2xx: its rules; 4xx: no rules; 429, 5xx and hosts that do not answer: to be tried again, as any URI;
        what cannot be understood: a dead letter, as are the pages that need it.
        """
        self.expect(url)
        site = self._sites[site_of(url)]
        if 200 <= answer.status < 300:
            self._settle(site, Protego.parse(answer.body.decode("utf-8", "replace")))
            return Outcome.SUCCESS
        if 300 <= answer.status < 500 and answer.status != 429:
            self._settle(site, _NO_RULES)
            return Outcome.SUCCESS
        if answer.outcome is Outcome.FAILURE:
            self.give_up(url)
            return Outcome.DEAD
        site.failing = True
        site.settled.set()
        site.settled = asyncio.Event()
        return Outcome.RETRY

    def give_up(self, url: str) -> None:
        """Note that a robots.txt will not be tried again for now: its authority counts as disallowed."""
        self.expect(url)
        site = self._sites[site_of(url)]
        site.given_up = True
        self._settle(site, None)

    def forget(self, url: str) -> None:
        """Forget a robots.txt, so that the next page of its authority asks anew."""
        self._drop(site_of(url))

    async def verdict(self, url: str, *, patience: float) -> Verdict:
        """Tell whether a URL may be fetched; waits at most `patience` seconds for a robots.txt that is on its way."""
        key = site_of(url)
        site = self._sites.get(key)
        if site is not None and site.rules is None and not site.given_up and not site.failing:
            try:
                await asyncio.wait_for(site.settled.wait(), patience)
            except TimeoutError:
                self.forget(url)  # lost on its way
        if site is None or (site.rules is None and not site.given_up):
            return Verdict.LATER
        if site.rules is None:
            return Verdict.UNREACHABLE
        return Verdict.ALLOWED if site.rules.can_fetch(url, self.agent) else Verdict.DISALLOWED

    def delay(self, url: str) -> float | None:
        """Return the crawl-delay asked for, in seconds."""
        site = self._sites.get(site_of(url))
        delay = site.rules.crawl_delay(self.agent) if site is not None and site.rules is not None else None
        return delay if delay is not None and 0 <= delay < math.inf else None

    def _settle(self, site: _Site, rules: Protego | None) -> None:
        site.rules = rules
        site.expires = self._now() + self._lifetime
        site.settled.set()

    def _drop(self, key: str) -> None:
        site = self._sites.pop(key, None)
        if site is not None:
            site.settled.set()


def is_robots(uri: CrawlUri) -> bool:
    """Tell whether a URI is a robots.txt fetched as a prerequisite, not as a page."""
    return uri.hops.endswith("P") and uris.split(uri.url)[1:] == ("/robots.txt", None)


def site_of(url: str) -> str:
    """Return scheme and authority, which a robots.txt speaks for: "https://example.org:8443"."""
    return f"{url.partition(':')[0]}://{uris.authority(url)}"
