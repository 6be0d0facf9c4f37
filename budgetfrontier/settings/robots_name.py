"""The name that a crawler has in robots.txt and in robots tags: its product token (RFC 9309, section 2.2.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from budgetfrontier.settings.schema import FetchSettings

_COMMENT = re.compile(r"\(([^()]*)\)?")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_IN_COMMENT = re.compile(r"\s*([A-Za-z0-9_.-]*[A-Za-z][A-Za-z0-9_.-]*)(?:[/ ]v?[0-9][\w.-]*)?\s*")
_COMPATIBLE = re.compile(r"compatible;\s*([A-Za-z0-9_.-]+)", re.IGNORECASE)
_BROWSERS = re.compile(
    "mozilla|applewebkit|webkit|khtml|like|gecko|chrome|chromium|headlesschrome|crios|firefox|fxios|safari|version|mobile|"
    "edge|edg|edga|edgios|opera|opr|presto|msie|trident|seamonkey|konqueror|samsungbrowser|vivaldi|yabrowser|"
    "x11|[uni]|macintosh|windows|linux|ubuntu|wayland|android|iphone|ipad|ipod|cros|wow64|win64|[_.-]*"
)
"""The products, engines and platforms that browsers name, in lower case, and names that say nothing."""


def robots_name(fetch: FetchSettings) -> str:
    """Return the name in lower case: `fetch.robots_name`, or the one in `fetch.user_agent`."""
    return (fetch.robots_name or product_token(fetch.user_agent)).lower()


def is_browser(name: str) -> bool:
    """Return whether a name in lower case is a browser's, or says nothing."""
    return name == "*" or _BROWSERS.fullmatch(name) is not None


def product_token(user_agent: str) -> str:
    """Return the product token of a crawler, in lower case: "examplebot" for "ExampleBot/1.0 (+...)".

    That is the first of these that no browser has: the word after "compatible;", the first word, a product in a comment
    with a URL or an e-mail address, as in "... Safari/605.1.15 (ExampleBot/0.1; +https://...)", and the last product.
    If there is none, it is the first word, such as "mozilla", which `is_browser` finds, or "*".
    """
    names = [name.lower() for name in _candidates(user_agent)]
    return next((name for name in names if not is_browser(name)), next(iter(names), "*"))


def _candidates(user_agent: str) -> Iterator[str]:
    yield from _COMPATIBLE.findall(user_agent)
    words = _COMMENT.sub(" ", user_agent).split()
    products = [match[0] for word in words if "://" not in word and "@" not in word and (match := _NAME.match(word))]
    yield from products[:1]
    for comment in _COMMENT.findall(user_agent):
        if "://" in comment or "@" in comment:
            found = [(part, match[1]) for part in re.split("[;,]", comment) if (match := _IN_COMMENT.fullmatch(part))]
            yield from (name for part, name in sorted(found, key=lambda one: "/" not in one[0]))
    yield from reversed(products)
