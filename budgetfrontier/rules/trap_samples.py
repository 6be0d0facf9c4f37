"""Samples of the pending URLs of one host, and the signs of a trap in them, each with a rule that was tried on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.patterns import Pattern

LEAST = 10
"""A sign needs so many URLs: fewer may be chance, unless they are at the end of a long chain of links."""
LONGEST = 1000
"""Characters of a URL that are looked at."""
ALTERNATIVES = 6
"""First segments that a regular expression names: it allows any if there are more."""
_GIVEN_UP = 3  # searches that took too long, after which a sign is not looked for: hostile URLs make them
_SEGMENTS = 40  # of a path
_DIGITS = re.compile(r"\d+")
_Parts = TypeVar("_Parts", str, tuple[str, ...])


class UrlSign(NamedTuple):
    """A sign of a trap: what it is, the share of the sample that has it, and a regular expression of those URLs."""

    code: str
    share: float
    text: str
    example: str
    pattern: str = ""
    """The regular expression, which names the host; "" if none is known that leaves the rest of the host alone."""


class Url(NamedTuple):
    """A URL and its parts."""

    href: str
    host: str
    path: str
    segments: tuple[str, ...]
    arguments: list[tuple[str, str]]
    via: str
    """The page that it was found on; "" if that is unknown."""
    hops: int

    @classmethod
    def of(cls, uri: CrawlUri) -> Url:
        """Return the parts of a URI."""
        href = uri.url[:LONGEST]
        site, path, query = uris.split(href)
        pairs = [] if not query else [argument.partition("=") for argument in query.split("&", _SEGMENTS)]
        arguments = [(name, value) for name, _, value in pairs]
        return cls(
            href, site.partition("://")[2], path, segments_of(path), arguments, (uri.via or "")[:LONGEST], len(uri.hops)
        )

    @property
    def first(self) -> str:
        """The first segment of the path, with N for each number; "" if there is none."""
        return masked(self.segments[0]) if self.segments else ""


class HostUrls(NamedTuple):
    """URLs of one host, and the beginning of a regular expression of them."""

    head: str
    urls: list[Url]
    few: bool
    """Whether the queue holds fewer than LEAST URIs, and one of these is at the end of a long chain of links."""
    repeated: float | None = None
    """The share of the last contents of the queue that were the same as another one; None if too few are known."""

    def sign(
        self,
        code: str,
        text: str,
        pattern: str,
        *,
        least_share: float,
        least: int = LEAST,
        members: Sequence[Url] | None = None,
    ) -> UrlSign | None:
        """Return the sign of the URLs that a pattern matches; None if they are too few.

        They have to be `least`, and `least_share` of the sample; of `few`, one and half of them. `members` are the URLs
        that have the sign, None: all that match. A pattern that matches others is left out.
        """
        if self.few:
            text += f", after a chain of {max(url.hops for url in self.urls):,} links"
            least, least_share = 1, 0.5
        compiled, found = Pattern(pattern), list[str]()
        for one in self.urls:
            if compiled.search(one.href):
                found.append(one.href)
            elif compiled.given_up >= _GIVEN_UP:
                return None
        if members is not None and not {one.href for one in members}.issuperset(found):
            pattern, found = "", [one.href for one in members]
        share = len(found) / len(self.urls)
        if len(found) < least or share < least_share:
            return None
        return UrlSign(code, share, f"{len(found):,} of {len(self.urls):,} URLs {text}", found[-1], pattern)


def segments_of(path: str) -> tuple[str, ...]:
    """Return the segments of a path, without the empty ones."""
    return tuple(filter(None, path.split("/", _SEGMENTS)))


def masked(text: str) -> str:
    """Return a text with N for each number."""
    return _DIGITS.sub("N", text)


def any_of(texts: Iterable[str]) -> str:
    """Return a regular expression of texts, whatever their numbers.

    >>> any_of(["f[0]", "f[1]", "q"])
    '(?:f\\\\[\\\\d+\\\\]|q)'
    """
    parts = sorted({r"\d+".join(map(re.escape, _DIGITS.split(text))) for text in texts})
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def first_segments(urls: Iterable[Url]) -> str:
    """Return a regular expression of the first segments of URLs, behind the host; "/" if there are too many."""
    found = {url.first: url.segments[0] if url.segments else "" for url in urls}
    return f"/{any_of(found.values())}(?![^/?])" if len(found) <= ALTERNATIVES else "/"


def common_beginning(several: Sequence[_Parts]) -> _Parts:
    """Return the beginning that texts, or tuples of segments, have in common."""
    least, most = min(several), max(several)
    length = next((n for n, pair in enumerate(zip(least, most, strict=False)) if pair[0] != pair[1]), len(least))
    return least[:length]


def ahead(urls: Iterable[Url]) -> str:
    """Return a regular expression that looks ahead for the first segments of URLs; "" if there are too many."""
    found = first_segments(urls)
    return "" if found == "/" else f"(?={found})"
