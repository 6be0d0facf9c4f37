"""The start tags of an HTML text, as the tokenizer of the HTML standard finds them, without building a tree.

A tree is what links do not need, and what hostile pages attack: a few kB of unclosed <b> make a DOM of hundreds of MiB,
and nested <div> take quadratic time. Here every character is looked at a few times, and nothing is kept.

Without a tree it is not always known whether an element's content is markup. Where it is not, both is tried, and what
either way finds is yielded: no link is lost. The ways meet again as soon as they agree on where a tag begins, so that
there are never more than a few.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterator
from html.entities import html5

from budgetfrontier.crawl.links import contexts, raw_text
from budgetfrontier.crawl.links.contexts import Context
from budgetfrontier.crawl.links.patterns import (
    ANY_NAME,
    ATTRIBUTE,
    PLAIN_ATTRIBUTE,
    STYLED,
    end_name,
    named,
    tag_pattern,
)

_LINKING = contexts.names(
    "a area audio base body embed frame iframe image img input link meta object script source style table td th track"
    " video"
)
_WANTED = frozenset(
    {"background", "content", "data", "href", "http-equiv", "imagesrcset", "name", "poster", "rel", "src", "srcset"}
    | {"style", "type", "xlink:href"}
)
# Any element may have a style with a URL; few pages have any. The first is for plain HTML, the second for contexts.
_PLAIN, _WITH_CONTEXTS = (
    named(_LINKING | raw_text.NAMES | contexts.OPENING),
    named(_LINKING | raw_text.NAMES | contexts.TELLING),
)
_CLOSING = named(contexts.CLOSING)
_PATTERNS = tag_pattern(_PLAIN), tag_pattern(_WITH_CONTEXTS, _CLOSING)
_STYLED = tag_pattern(f"{_PLAIN}|{STYLED}"), tag_pattern(f"{_WITH_CONTEXTS}|{STYLED}", _CLOSING)
_EVERY = tag_pattern(ANY_NAME, ANY_NAME)
_URL = re.compile(r"url\(")  # quicker than "in"
_TEMPLATE = re.compile(r"<(/?)template(?=[ \t\n\f\r/>])", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]*+(?:;|(?![=A-Za-z0-9])))")


def tags(text: str, *, xhtml: bool = False) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, attributes), in lower case, of each start tag that may hold a link, in order. The content of a style
    element is its attribute "#text".

    Comments, and what stands in script, style, textarea, title and xmp, hold no tags; what stands in noscript, noframes
    and template does. Attributes are those that say something of links, their values as written; the first of two with
    one name counts; those without a value are left out or "". A base that is in a template or in SVG is left out. With
    `xhtml`, elements may be closed by "/>", and CDATA sections are text.
    """
    return _Reader(text, xhtml=xhtml).tags()


class _Reader:
    """One text, and the ways to read it: from where each goes on, in which context. The first goes on next."""

    def __init__(self, text: str, *, xhtml: bool) -> None:
        self._text, self._xhtml = text, xhtml
        self._styled = "(" in text and _URL.search(text) is not None
        self._ends = raw_text.Ends(text)
        self._ways: list[tuple[int, Context]] = [(0, contexts.HTML)]
        self._hidden_until = self._told_until = 0
        self._templates = self._counted = 0

    def tags(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Go on where the first way is, as long as there is one."""
        ways = self._ways
        while ways:
            yield from self._read(*ways.pop(0))

    def _read(self, position: int, context: Context) -> Iterator[tuple[str, dict[str, str]]]:
        """Read tags until there is another way that is not as far, or the way or the context changes."""
        styled, ways = self._styled, self._ways
        first_way = ways[0][0] if ways else None
        every = contexts.nested(context)
        pattern = _EVERY if every else (_STYLED if styled else _PATTERNS)[bool(context)]
        for match in pattern.finditer(self._text, position):
            if first_way is not None and match.start() >= first_way:
                self._go(match.start(), context)
                return
            name, plain, href, rel, other, closed = match.groups()
            if name == "a" and plain and not every and not (styled and "url(" in plain):
                yield name, {"href": href or ""} if rel is None else {"href": href or "", "rel": rel}
                continue
            if name is not None:
                if closed == "":
                    return
                name = name.lower()
                found = _plain(plain) if plain and name != "base" else _any(plain or other)
                if name in raw_text.NAMES:
                    self._skip(name, found, match, context)
                    yield name, found
                    return
                if (found or name == "body") and (name != "base" or self._counts(match.start(), context)):
                    yield name, found
                if not context and name not in contexts.OPENING:
                    continue
                after = contexts.opened(context, name, closed=_is_closed(plain, other))
            elif match[0] == "<!--":
                self._go(self._ends.comment(match.end()), context)
                return
            elif match[0] == "<![CDATA[":
                self._cdata(match.end(), context)
                return
            elif context:
                after = contexts.closed(context, end_name(match[0]))
            else:
                continue
            if after != context:
                self._go(match.end(), after)
                return

    def _go(self, position: int | None, context: Context) -> None:
        """Go on there later, if there is such a place. Ways that have met are one."""
        if position is None:
            return
        ways = self._ways
        place = bisect_left(ways, (position, contexts.HTML))
        if place < len(ways) and ways[place][0] == position:
            context = contexts.merged(context, ways.pop(place)[1])
        ways.insert(place, (position, context))

    def _cdata(self, position: int, context: Context) -> None:
        """Go on after a CDATA section, which is one in XML only; in HTML it ends like a tag."""
        if context or self._xhtml:
            self._go(self._ends.cdata(position), context)
        if not self._xhtml:
            self._go(self._text.find(">", position) + 1 or None, context)

    def _skip(self, name: str, found: dict[str, str], match: re.Match[str], context: Context) -> None:
        """Go on after the content of an element, or within it, or both."""
        position, closed = match.end(), _is_closed(match[2], match[5])
        if closed and self._xhtml:
            self._go(position, context)
            return
        sure = not context
        content = self._ends.content(name, position, sure=sure)
        if content is not None:
            start, end = content
            if name == "style" and position >= self._told_until:  # many may have one end
                found["#text"], self._told_until = self._text[position:start], end
            self._go(end, context)
            if self._text.find("<", position) == start:
                return
            self._hidden_until = max(self._hidden_until, end)
        if name in raw_text.HIDDEN:
            self._go(position, context)
        elif not sure:
            foreign = contexts.is_foreign(context)
            self._go(position, contexts.opened(context, name, closed=closed) if foreign else contexts.UNSURE)

    def _counts(self, position: int, context: Context) -> bool:
        """Tell whether a base counts that stands here."""
        for match in _TEMPLATE.finditer(self._text, self._counted, position):
            self._templates = max(self._templates + (-1 if match[1] else 1), 0)
        self._counted = max(self._counted, position)
        return not self._templates and position >= self._hidden_until and not contexts.is_foreign(context)


def _is_closed(plain: str | None, other: str | None) -> bool:
    """Tell whether a tag ends in "/>", and the "/" is not the end of a value."""
    if plain:
        return plain.endswith("/>")
    if other is None or not other.endswith("/"):
        return False
    return all(match.end() < len(other) for match in ATTRIBUTE.finditer(other))


def _plain(text: str) -> dict[str, str]:
    # An attribute's name, "=" and a quote cannot stand inside a quoted value.
    found: dict[str, str] = {}
    for match in PLAIN_ATTRIBUTE.finditer(text):
        if match[1] in _WANTED:
            found.setdefault(match[1], match[2])
    return found


def _any(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in ATTRIBUTE.finditer(text):
        name, double, single, bare = match.groups("")
        if (name := name.lower()) in _WANTED:
            found.setdefault(name, double or single or bare)
    return found


def unescaped(value: str) -> str:
    """Return an attribute's value with its character references replaced.

    Those without ";" count only where neither "=" nor a letter or digit follows, so that "?a=1&copy=2" stays.
    """
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    found = match[0]
    return html.unescape(found) if found[1] == "#" else html5.get(found[1:], found)
