"""The rules of robots.txt files by site (RFC 9309), and the directives of X-Robots-Tag and robots meta elements.

A robots.txt is fetched as a URI of its own, a prerequisite with directive HIGHEST and cost 0 in the queue of the page
that needs it. Thus politeness applies to it, and the pages of the queue come after it. The results are stored in the
crawl's cache on disk, and in this process for the sites used last.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import NamedTuple

from protego import Protego

from budgetfrontier import uris
from budgetfrontier.bounded_cache import BoundedCache
from budgetfrontier.crawl.cache import CrawlCache, StoredRobots
from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.threads import in_thread
from budgetfrontier.model import CrawlUri, Directive, Lease, Outcome

MAX_BODY = 500 * 1024
"""The most bytes of a robots.txt that are parsed: the minimum that RFC 9309, section 2.5, requires."""

LIFETIME = 86400.0
"""The most seconds for which rules apply after their fetch: RFC 9309, section 2.4."""

STALE_LIFETIME = 3600.0
"""Seconds for which expired rules continue to apply if their host does not respond, as section 2.4 allows."""

_MOST_WAITED_FOR = 10_000  # sites whose robots.txt is awaited or unreachable
_SITE_SIZE, _RULE_SIZE = 2048, 800  # approximate bytes in memory of a site, and of each of its rules
_INCOMPLETE = frozenset({"timeTrunc", "connTrunc", "badEncoding"})  # notes of a response whose body may be incomplete
_LARGE = 16 * 1024  # bytes of rules from which matching, which then takes milliseconds, is done in a thread

# The misspellings are those that Google's parser accepts: https://github.com/google/robotstxt. Other lines, "Sitemap"
# among them, do not end a group: RFC 9309, section 2.2.4.
_LINE = re.compile(
    rb"^[ \t]*(user[ -]?agent|allow|diss?all?ow|disallaw|diasllow|crawl[ -]delay)"
    rb"[ \t]*(?:[ \t]|:)[ \t]*([^\n#]*)",
    re.IGNORECASE | re.MULTILINE,
)
_TOKEN = re.compile(rb"[A-Za-z0-9_.-]+|\*(?=\s|\Z)")
_COMPATIBLE = re.compile(r"compatible;\s*([A-Za-z0-9_.-]+)")
_AGENT = re.compile(r"[a-z0-9_.*-]+")
# Directives with a value after a colon; in others, the text before a colon is a user agent.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_NOT_PLAIN = re.compile(rb"[^\n\x21-\x7e]")


# Protego lets the rule "/a$" match "/a%24" too. Therefore a "$" that is not at the end of a rule is replaced by another
# escape, in rules and URLs.
_LITERAL_DOLLAR, _STAND_IN = re.compile(r"\$(?!$)|%24", re.MULTILINE), "%03"


class Permission(Enum):
    """Whether robots.txt permits to fetch a URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    LATER = "later"  # its robots.txt has not been received yet
    POSTPONED = "postponed"  # its robots.txt waits for a host that it redirects to
    STOPPED = "stopped"  # its robots.txt will not be received in this run
    UNREACHABLE = "unreachable"  # its robots.txt is unreachable: everything is disallowed


class Group(NamedTuple):
    """The rules of a robots.txt for one user agent: lines such as "Allow:/a", and the crawl-delay in seconds."""

    rules: str = ""
    delay: float | None = None


class _Directives:
    """The combined groups for one product token: distinct rule lines in order, and the crawl-delay."""

    __slots__ = ("delay", "rules")

    def __init__(self) -> None:
        self.rules: dict[tuple[bytes, bytes], None] = {}
        self.delay: float | None = None


class _Site:
    """A site whose rules are known; they are compiled when first needed."""

    __slots__ = ("compiled", "expires", "group", "size")

    def __init__(self, group: Group, expires: float) -> None:
        self.group, self.expires = group, expires
        self.size = _SITE_SIZE + _RULE_SIZE * group.rules.count("\n") + 2 * len(group.rules)
        self.compiled: Protego | None = None

    def allows(self, url: str) -> bool:
        if self.compiled is None:
            self.compiled = Protego.parse("User-agent:*\n" + _LITERAL_DOLLAR.sub(_STAND_IN, self.group.rules))
        return self.compiled.can_fetch(url.replace("$", _STAND_IN).replace("%24", _STAND_IN), "*")


class _Awaited:
    """A site whose rules are not known: its robots.txt is awaited, failing, postponed, or given up."""

    __slots__ = ("failing", "given_up", "postponed", "settled")

    def __init__(self) -> None:
        self.failing = False
        self.given_up: float | None = None  # until when, epoch seconds
        self.postponed: float | None = None  # until when, for a host that it redirects to
        self.settled = asyncio.Event()


class Robots:
    """The robots.txt rules of the sites (scheme and authority) of a crawl, for one user agent.

    Fetched files are stored in `cache` for `lifetime` seconds. The rules of the sites used last are kept parsed, in
    about `limit` bytes; reading those of another site again takes 0.1 ms. `now` returns epoch seconds.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        cache: CrawlCache,
        lifetime: float = LIFETIME,
        limit: int = 32 << 20,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.agent = product_token(user_agent)
        self.lifetime = lifetime
        self._cache, self._now = cache, now
        self._sites: BoundedCache[str, _Site] = BoundedCache(limit, lambda site: site.size)
        self._awaited: OrderedDict[str, _Awaited] = OrderedDict()
        self._stopped = False
        self._thread = asyncio.Lock()

    def prerequisite(self, lease: Lease) -> CrawlUri | None:
        """Return the robots.txt to fetch before the URI of a lease; None if it is known or awaited already."""
        key = site_of(lease.uri.url)
        if self._known(key) is not None or self._waiting(key) is not None:
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

    def has_rules(self, url: str) -> bool:
        """Tell whether unexpired rules for this URL are known, so that its robots.txt need not be fetched."""
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

    def record(self, url: str, response: Response) -> Outcome:
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
            self.give_up(url)
            return Outcome.DEAD
        site = self._await(key)
        site.failing = True
        return Outcome.RETRY

    def interpret(self, response: Response) -> StoredRobots | None:
        """Return the robots.txt in a response; None if it could not be fetched, or is incomplete."""
        status = response.status
        if 200 <= status < 300 and _INCOMPLETE.isdisjoint(response.notes):
            return StoredRobots(status, self._now() + self.lifetime, _parsed_part(response))
        if 300 <= status < 500 and status != 429:
            return StoredRobots(status, self._now() + self.lifetime, b"")
        return None

    def is_fresh(self, stored: StoredRobots) -> bool:
        """Tell whether a stored robots.txt is unexpired; one that expires too late, due to a wrong clock, is not."""
        now = self._now()
        return now < stored.expires <= now + self.lifetime

    def store(self, url: str, stored: StoredRobots) -> None:
        """Store a robots.txt for the site of a URL; its rules apply from now on. Raises StorageFull."""
        key = site_of(url)
        self._cache.put_robots(key, stored, now=self._now())
        self._cache_rules(key, stored)
        self._drop(key)

    def give_up(self, url: str) -> None:
        """Record that a robots.txt is not retried for `lifetime` seconds; its site is disallowed meanwhile."""
        site = self._await(site_of(url))
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
                await asyncio.wait_for(waiting.settled.wait(), patience)
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

    def delay(self, url: str) -> float | None:
        """Return the crawl-delay for a URL in seconds; None if there is none, or it is not known."""
        site = self._known(site_of(url))
        return None if site is None else site.group.delay

    async def _allows(self, site: _Site, url: str) -> bool:
        if len(site.group.rules) < _LARGE:
            return site.allows(url)
        async with self._thread:  # one at a time: hostile rules take up to 0.2 s for a long URL
            return await in_thread(partial(site.allows, url))

    # Sites whose rules are known

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

    # Sites whose rules are not known

    def _waiting(self, key: str) -> _Awaited | None:
        site = self._awaited.get(key)
        over = None if site is None else site.given_up or site.postponed
        return None if over is not None and over <= self._now() else site

    def _await(self, key: str) -> _Awaited:
        """Return a new entry for a site whose robots.txt is awaited; those waiting on an old one are woken."""
        self._drop(key)
        while len(self._awaited) >= _MOST_WAITED_FOR:
            self._drop(next(iter(self._awaited)))
        site = self._awaited[key] = _Awaited()
        return site

    def _drop(self, key: str) -> None:
        site = self._awaited.pop(key, None)
        if site is not None:
            site.settled.set()


def is_robots(uri: CrawlUri) -> bool:
    """Tell whether a URI is a robots.txt fetched as a prerequisite, not as a page."""
    return uri.hops.endswith("P") and uris.split(uri.url)[1:] == ("/robots.txt", None)


def site_of(url: str) -> str:
    """Return scheme and authority of a URL, to which one robots.txt applies: "https://example.org:8443"."""
    return f"{url.partition(':')[0]}://{uris.authority(url)}"


def product_token(user_agent: str) -> str:
    """Return the product token of a crawler, in lower case: "examplebot" for "ExampleBot/1.0 (+...)".

    That is the first word, or in "Mozilla/5.0 (compatible; ExampleBot/1.0; +...)" the one after "compatible;".
    """
    claimed = _COMPATIBLE.search(user_agent)
    return (claimed[1] if claimed else user_agent.replace("/", " ").split()[0]).lower()


def group_for(agent: str, body: bytes) -> Group:
    """Return the group of a robots.txt that applies to a product token (RFC 9309, section 2.2.1).

    All groups that name the token are combined; those for "*" apply only if there is none. Other groups are skipped, so
    that thousands of them take no memory. Non-ASCII octets are percent-encoded, whatever their charset; a line ends in
    CR, LF or both. About 70 us for 1 kB, up to 80 ms for 500 KiB.
    """
    body = lines(body)
    wanted = agent.encode()
    by_token = {b"*": _Directives(), wanted: _Directives()}
    current: dict[bytes, _Directives] = {}  # the tokens of the current group, as far as they matter
    has_own_group = in_agents = False
    for line in _LINE.findall(body):
        kind = line[0][:1]
        if kind in b"uU":
            if not in_agents:
                current, in_agents = {}, True
            token = _TOKEN.match(line[1])
            name = token[0].lower() if token else b""
            if name in by_token:
                current[name] = by_token[name]
                has_own_group = has_own_group or name == wanted
        elif kind in b"cC":
            if (delay := _delay(line[1])) is not None:
                for one in current.values():
                    one.delay = delay
        else:
            in_agents = False
            for one in current.values():
                one.rules[line] = None
    directives = by_token[wanted if has_own_group else b"*"]
    rules = ((key[:1] in b"aA", value.strip()) for key, value in directives.rules)
    text = b"\n".join((b"Allow:" if allowed else b"Disallow:") + value for allowed, value in rules if value)
    return Group(_NOT_PLAIN.sub(lambda octet: b"%%%02X" % octet[0][0], text).decode("ascii"), directives.delay)


def lines(body: bytes) -> bytes:
    """Return a robots.txt without byte order mark, in UTF-8 if it was UTF-16, and with LF as line end."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = body.decode("utf-16", "replace").encode()
    return body.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _delay(value: bytes) -> float | None:
    try:
        delay = float(value.strip())
    except ValueError:
        return None
    return delay if 0 <= delay < math.inf else None


def _parsed_part(response: Response) -> bytes:
    """Return the part of a robots.txt that is parsed: whole lines up to MAX_BODY."""
    body = response.body[:MAX_BODY]
    if len(response.body) > MAX_BODY or "lenTrunc" in response.notes:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    return body


def tags(values: Iterable[str], agent: str) -> tuple[bool, bool]:
    """Return (noindex, nofollow) from the values of X-Robots-Tag headers or robots meta elements, for a product token.

    Directives for all crawlers and those for `agent` ("googlebot: nofollow") are combined. "none" means both; other
    words, such as the dates of "unavailable_after", are ignored. The syntax is Google's:
    https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag
    """
    found: set[str] = set()
    for value in values:
        applies = True
        for word in value.lower().split(","):
            name, colon, rest = (part.strip() for part in word.partition(":"))
            if colon and name not in _VALUED and _AGENT.fullmatch(name):
                applies = name in (agent.lower(), "robots", "*")  # applies to the words that follow too
                word = rest
            if applies:
                found.add(word.strip())
    return not found.isdisjoint(("noindex", "none")), not found.isdisjoint(("nofollow", "none"))
