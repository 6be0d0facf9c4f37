"""The directives of X-Robots-Tag headers and robots meta elements."""

from __future__ import annotations

import re
from collections.abc import Iterable

from budgetfrontier.core.vocabulary import NOFOLLOW, NOINDEX

# Directives with a value after a colon; in others, the text before a colon is a user agent.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AGENT = re.compile(r"[a-z0-9_.*-]+")


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
    return not found.isdisjoint((NOINDEX, "none")), not found.isdisjoint((NOFOLLOW, "none"))
