"""The contents of a robots.txt (RFC 9309): the group for a user agent, and which URLs its rules allow."""

from __future__ import annotations

import codecs
import math
import re
from typing import NamedTuple

from protego import Protego

from budgetfrontier.crawler.fetch.response import FetchResult

MAX_BODY = 500 * 1024
"""The most bytes of a robots.txt that are parsed: the minimum that RFC 9309, section 2.5, requires."""

# Google's parser accepts these misspellings, and a missing colon if one word follows:
# https://github.com/google/robotstxt. Other lines, "Sitemap" among them, do not end a group: RFC 9309, section 2.2.4.
_LINE = re.compile(
    rb"^[ \t]*(user[ -]?agent|allow|diss?all?ow|disallaw|diasllow|crawl[ -]delay)"
    rb"(?:[ \t]*:[ \t]*|[ \t]+(?=[^\s#]+[ \t]*(?:#|$)))([^\n#]*)",
    re.IGNORECASE | re.MULTILINE,
)
_LAST_TAG = re.compile(rb"<[^<>\n]*>[ \t]*$", re.MULTILINE)  # of a file that was saved as HTML: "Crawl-delay: 10<BR>"
_TOKEN = re.compile(rb"[A-Za-z0-9_.-]+|\*(?=\s|\Z)")
_NOT_PLAIN = re.compile(rb"[^\n\x21-\x7e]")
# Protego lets the rule "/a$" match "/a%24" too. Therefore a "$" that is not at the end of a rule is replaced by another
# escape, in rules and URLs.
_LITERAL_DOLLAR, _STAND_IN = re.compile(r"\$(?!$)|%24", re.MULTILINE), "%03"


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

    def add_delay(self, delay: float) -> None:
        """Add a crawl-delay; the shortest applies, as in crawler-commons."""
        self.delay = delay if self.delay is None else min(delay, self.delay)


class Rules:
    """The rules of a group, which are compiled when first needed."""

    __slots__ = ("_compiled", "_text")

    def __init__(self, group: Group) -> None:
        self._text = group.rules
        self._compiled: Protego | None = None

    def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched."""
        if self._compiled is None:
            self._compiled = Protego.parse("User-agent:*\n" + _LITERAL_DOLLAR.sub(_STAND_IN, self._text))
        return self._compiled.can_fetch(url.replace("$", _STAND_IN).replace("%24", _STAND_IN), "*")


def group_for(agent: str, body: bytes) -> Group:
    """Return the group of a robots.txt that applies to a product token (RFC 9309, section 2.2.1).

    All groups that name the token are combined; those for "*" apply only if there is none. Other groups are skipped, so
    that thousands of them take no memory. A crawl-delay ends no group, but belongs only to the agents that are named
    before it, back to the previous crawl-delay or rule. Non-ASCII octets are percent-encoded, whatever their charset; a
    line ends in CR, LF or both. About 70 us for 1 kB, up to 80 ms for 500 KiB.
    """
    body = _LAST_TAG.sub(b"", lines(body))
    wanted = agent.encode()
    by_token = {b"*": _Directives(), wanted: _Directives()}
    current: dict[bytes, _Directives] = {}  # the tokens of the current group, as far as they matter
    delayed: dict[bytes, _Directives] = {}  # those of them that a crawl-delay belongs to
    has_own_group = in_agents = in_delayed = False
    for line in _LINE.findall(body):
        kind = line[0][:1]
        if kind in b"uU":
            if not in_agents:
                current, in_agents = {}, True
            if not in_delayed:
                delayed, in_delayed = {}, True
            token = _TOKEN.match(line[1])
            name = token[0].lower() if token else b""
            if name in by_token:
                current[name] = delayed[name] = by_token[name]
                has_own_group = has_own_group or name == wanted
        elif kind in b"cC":
            in_delayed = False
            if (delay := _delay(line[1])) is not None:
                for one in delayed.values():
                    one.add_delay(delay)
        else:
            in_agents = in_delayed = False
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


def parsed_part(response: FetchResult) -> bytes:
    """Return the part of a robots.txt that is parsed: whole lines up to MAX_BODY."""
    body = response.body[:MAX_BODY]
    if len(response.body) > MAX_BODY or "lenTrunc" in response.notes:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    return body
