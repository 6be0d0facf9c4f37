"""What robots.txt allows, for every authority that the crawl meets (RFC 9309), and what X-Robots-Tag says of a page.

A robots.txt is fetched as a URI of its own, a prerequisite with directive HIGHEST and cost 0 in the queue of the page
that needs it: so it waits its turn, and the pages after it, as politeness asks. What came of it is kept in the crawl's
memory on disk, and in this process for the sites met last.
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
"""RFC 9309, section 2.5, asks crawlers to parse at least this much. What comes after it does not count."""

LIFETIME = 86400.0
"""Seconds that rules count, at the most: RFC 9309, section 2.4."""

STALE_LIFETIME = 3600.0
"""Seconds that expired rules go on to count while their host does not answer: section 2.4 allows to use them."""

_MOST_WAITED_FOR = 10_000  # sites whose robots.txt is awaited, or could not be had
_SITE_SIZE, _RULE_SIZE = 2048, 800  # bytes that a site, and each of its rules, take in memory, about
_BROKEN = frozenset({"timeTrunc", "connTrunc", "badEncoding"})  # notes of an answer whose rules may be half of them
_LARGE = 16 * 1024  # bytes of rules that are better seen to in a thread: to read, or to match, they take milliseconds

# The misspellings are those that Google's parser takes, too: https://github.com/google/robotstxt. Of other lines,
# "Sitemap" among them, none ends a group: RFC 9309, section 2.2.4.
_LINE = re.compile(
    rb"^[ \t]*(user[ -]?agent|allow|diss?all?ow|disallaw|diasllow|crawl[ -]delay)"
    rb"[ \t]*(?:[ \t]|:)[ \t]*([^\n#]*)",
    re.IGNORECASE | re.MULTILINE,
)
_TOKEN = re.compile(rb"[A-Za-z0-9_.-]+|\*(?=\s|\Z)")
_COMPATIBLE = re.compile(r"compatible;\s*([A-Za-z0-9_.-]+)")
_AGENT = re.compile(r"[a-z0-9_.*-]+")
# Tags that have a value after the colon, where others have an agent before it.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_NOT_PLAIN = re.compile(rb"[^\n\x21-\x7e]")


# Protego takes "/a$" for "/a%24", too. A "$" that is not at a rule's end goes by another name, in rules and URLs, so
# that this fits nothing.
_LITERAL_DOLLAR, _STAND_IN = re.compile(r"\$(?!$)|%24", re.MULTILINE), "%03"


class Permission(Enum):
    """What robots.txt says about a URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    LATER = "later"  # its robots.txt did not answer yet
    POSTPONED = "postponed"  # it waits for a host that it was sent to
    STOPPED = "stopped"  # nor will it in this run
    UNREACHABLE = "unreachable"  # its robots.txt could not be had: all is disallowed


class Group(NamedTuple):
    """What a robots.txt says to one user agent: lines "Allow:/a", and the crawl-delay in seconds."""

    rules: str = ""
    delay: float | None = None


class _Said:
    """What the groups for one name say: lines of rules in order, each once, and the crawl-delay."""

    __slots__ = ("delay", "rules")

    def __init__(self) -> None:
        self.rules: dict[tuple[bytes, bytes], None] = {}
        self.delay: float | None = None


class _Site:
    """A site whose rules are known. `compiled` once they were needed."""

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
    """A site whose rules are not known: its robots.txt is on its way, is failing, or was given up."""

    __slots__ = ("failing", "given_up", "postponed", "settled")

    def __init__(self) -> None:
        self.failing = False
        self.given_up: float | None = None  # until when
        self.postponed: float | None = None  # until when: it waits for a host that it was sent to
        self.settled = asyncio.Event()


class Robots:
    """The robots.txt rules of the sites (scheme and authority) of a crawl, for one user agent.

    What was fetched lies in `cache` for `lifetime` seconds; the rules of the sites met last stay parsed, in about
    `limit` bytes; those of the others cost 0.1 ms to read again. `now` tells epoch seconds.
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
        """Return the robots.txt to fetch before this lease's URI; None if it is known, or awaited already."""
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

    def knows(self, url: str) -> bool:
        """Tell whether rules for this URL are known that still count, so that nobody has to ask again."""
        return self._known(site_of(url)) is not None

    def expect(self, url: str) -> None:
        """Note that the robots.txt of this URL's site is on its way."""
        key = site_of(url)
        site = self._awaited.get(key)
        if site is None or site.given_up is not None or site.settled.is_set():
            self._await(key)
        else:
            site.failing = False

    def postpone(self, url: str, until: float) -> None:
        """Note that a robots.txt waits, and its queue with it: nobody is to wait for it in a slot meanwhile."""
        site = self._await(site_of(url))
        site.postponed = until
        site.settled.set()

    def postponed(self, url: str) -> float:
        """Return the seconds for which the robots.txt of this URL's site is postponed."""
        site = self._waiting(site_of(url))
        return 0.0 if site is None or site.postponed is None else site.postponed - self._now()

    def record(self, url: str, answer: Response) -> Outcome:
        """Take in what the fetch of a robots.txt gave, and return how that fetch ends (RFC 9309, section 2.3.1).

        2xx: its rules; 3xx (a redirect too many) and 4xx: no rules. 429, 5xx, hosts that do not answer and answers that
        break off: what it said before goes on to count, if that is known, or else it is to be tried again, as any URI.
        What cannot be understood: likewise, or else a dead letter, as are the pages that need it. Raises StorageFull.
        """
        stored = self.understood(answer)
        if stored is not None:
            self.learn(url, stored)
            return Outcome.SUCCESS
        key = site_of(url)
        old = self._cache.robots(key)
        if old is not None and old.status < 300:
            self.learn(url, old._replace(expires=self._now() + min(STALE_LIFETIME, self.lifetime)))
            return Outcome.SUCCESS
        if answer.outcome is Outcome.FAILURE:
            self.give_up(url)
            return Outcome.DEAD
        site = self._await(key)
        site.failing = True
        return Outcome.RETRY

    def understood(self, answer: Response) -> StoredRobots | None:
        """Return what an answer says of the rules; None if it could not be had, or not as a whole."""
        status = answer.status
        if 200 <= status < 300 and _BROKEN.isdisjoint(answer.notes):
            return StoredRobots(status, self._now() + self.lifetime, _readable(answer))
        if 300 <= status < 500 and status != 429:
            return StoredRobots(status, self._now() + self.lifetime, b"")
        return None

    def counts(self, stored: StoredRobots) -> bool:
        """Tell whether what was stored has not expired; a clock may have been wrong."""
        now = self._now()
        return now < stored.expires <= now + self.lifetime

    def learn(self, url: str, stored: StoredRobots) -> None:
        """Let rules count for the site of a URL. Raises StorageFull."""
        key = site_of(url)
        self._cache.put_robots(key, stored, now=self._now())
        self._keep(key, stored)
        self._drop(key)

    def give_up(self, url: str) -> None:
        """Note that a robots.txt will not be tried again for now: its site counts as disallowed."""
        site = self._await(site_of(url))
        site.given_up = self._now() + self.lifetime
        site.settled.set()

    def stop_waiting(self) -> None:
        """Let go of the pages that wait for a robots.txt: the crawl is ending, and asks for none any more."""
        if not self._stopped:
            self._stopped = True
            for site in self._awaited.values():
                site.settled.set()

    async def verdict(self, url: str, *, patience: float) -> Permission:
        """Tell whether a URL may be fetched; waits at most `patience` seconds for a robots.txt that is on its way."""
        key = site_of(url)
        waiting = self._waiting(key)
        wait = waiting is not None and not waiting.failing and waiting.given_up is None and not self._stopped
        if waiting is not None and wait and self._known(key) is None:
            try:
                await asyncio.wait_for(waiting.settled.wait(), patience)
            except TimeoutError:
                self._drop(key)  # lost on its way, so that the next page asks anew
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
        """Return the crawl-delay asked for, in seconds."""
        site = self._known(site_of(url))
        return None if site is None else site.group.delay

    async def _allows(self, site: _Site, url: str) -> bool:
        if len(site.group.rules) < _LARGE:
            return site.allows(url)
        async with self._thread:  # one at a time: hostile rules take up to 0.2 s for a long URL
            return await in_thread(partial(site.allows, url))

    # Sites whose rules are known

    def _known(self, key: str) -> _Site | None:
        """The rules of a site, if they still count: from this process, or from the disk."""
        now = self._now()
        site = self._sites.get(key)
        if site is None:
            stored = self._cache.robots(key)
            if stored is None or not self.counts(stored):
                return None
            return self._keep(key, stored)
        if site.expires <= now:
            return None
        self._sites.refresh(key)
        return site

    def _keep(self, key: str, stored: StoredRobots) -> _Site:
        made = _Site(group_for(self.agent, stored.body), stored.expires)
        self._sites.put(key, made)
        return made

    # Sites whose rules are not known

    def _waiting(self, key: str) -> _Awaited | None:
        site = self._awaited.get(key)
        over = None if site is None else site.given_up or site.postponed
        return None if over is not None and over <= self._now() else site

    def _await(self, key: str) -> _Awaited:
        """Begin to wait for a robots.txt, or begin anew; who waits already looks again."""
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
    """Return scheme and authority, which a robots.txt speaks for: "https://example.org:8443"."""
    return f"{url.partition(':')[0]}://{uris.authority(url)}"


def product_token(user_agent: str) -> str:
    """Return the name that robots.txt files know a crawler by, in lower case: "examplebot" of "ExampleBot/1.0 (+...)".

    The first word counts, or in "Mozilla/5.0 (compatible; ExampleBot/1.0; +...)" that after "compatible;".
    """
    claimed = _COMPATIBLE.search(user_agent)
    return (claimed[1] if claimed else user_agent.replace("/", " ").split()[0]).lower()


def group_for(agent: str, body: bytes) -> Group:
    """Return what a robots.txt says to the crawler with this product token (RFC 9309, section 2.2.1).

    All groups that name the token count as one; those for "*" only if there is none. So thousands of groups for others
    cost nothing. Octets beyond ASCII come out percent-encoded, whatever charset they are in; a line ends in CR, LF or
    both. About 70 us for 1 kB, up to 80 ms for 500 KiB.
    """
    body = lines(body)
    wanted = agent.encode()
    said = {b"*": _Said(), wanted: _Said()}
    spoken_to: dict[bytes, _Said] = {}  # by the group that a line is in, as far as it matters
    named = in_head = False
    for line in _LINE.findall(body):
        kind = line[0][:1]
        if kind in b"uU":
            if not in_head:
                spoken_to, in_head = {}, True
            token = _TOKEN.match(line[1])
            name = token[0].lower() if token else b""
            if name in said:
                spoken_to[name] = said[name]
                named = named or name == wanted
        elif kind in b"cC":
            if (delay := _delay(line[1])) is not None:
                for one in spoken_to.values():
                    one.delay = delay
        else:
            in_head = False
            for one in spoken_to.values():
                one.rules[line] = None
    counts = said[wanted if named else b"*"]
    rules = ((key[:1] in b"aA", value.strip()) for key, value in counts.rules)
    text = b"\n".join((b"Allow:" if allowed else b"Disallow:") + value for allowed, value in rules if value)
    return Group(_NOT_PLAIN.sub(lambda octet: b"%%%02X" % octet[0][0], text).decode("ascii"), counts.delay)


def lines(body: bytes) -> bytes:
    """Return a robots.txt without byte order mark, from UTF-16 in UTF-8, its lines ended by LF."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        body = body.decode("utf-16", "replace").encode()
    return body.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _delay(value: bytes) -> float | None:
    try:
        delay = float(value.strip())
    except ValueError:
        return None
    return delay if 0 <= delay < math.inf else None


def _readable(answer: Response) -> bytes:
    """The part of a robots.txt that counts: whole lines up to the limit."""
    body = answer.body[:MAX_BODY]
    if len(answer.body) > MAX_BODY or "lenTrunc" in answer.notes:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    return body


def tags(values: Iterable[str], agent: str) -> tuple[bool, bool]:
    """Return (noindex, nofollow) of X-Robots-Tag values, or of what a robots meta tag holds, for a product token.

    What is said to all and what is said to `agent` ("googlebot: nofollow") add up. "none" is both; other words, dates
    of "unavailable_after" among them, say nothing of these two. The rules are Google's:
    https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag
    """
    found: set[str] = set()
    for value in values:
        counts = True
        for word in value.lower().split(","):
            name, colon, rest = (part.strip() for part in word.partition(":"))
            if colon and name not in _VALUED and _AGENT.fullmatch(name):
                counts = name in (agent.lower(), "robots", "*")  # and so for the words that follow
                word = rest
            if counts:
                found.add(word.strip())
    return not found.isdisjoint(("noindex", "none")), not found.isdisjoint(("nofollow", "none"))
