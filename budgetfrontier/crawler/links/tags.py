"""The start tags of an HTML text, found by the rules of the HTML standard's tokenizer, without building a tree.

Links do not need a tree, and hostile pages exploit one: a few kB of unclosed <b> make a DOM of hundreds of MiB, and
nested <div> take quadratic time. Here, every character is read a small number of times, and nothing is kept in memory.

Without a tree, it is sometimes unknown whether the content of an element is markup. Then both interpretations are
followed, and the tags of both are yielded, so that no link is lost. Interpretations that reach the same position are
merged, so that there are never more than a few.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterator
from html.entities import html5
from itertools import chain, islice

from budgetfrontier.crawler.links import contexts, raw_text
from budgetfrontier.crawler.links.contexts import Context
from budgetfrontier.crawler.links.tag_patterns import (
    ANY_NAME,
    ATTRIBUTE,
    PLAIN_ATTRIBUTE,
    STYLED,
    end_name,
    named,
    tag_pattern,
)

_LINK_ELEMENTS = contexts.names(
    "a area audio base body embed feimage frame iframe image img input link meta object script source style table td th"
    " track use video"
)
_RELEVANT = frozenset(
    {"background", "content", "data", "href", "http-equiv", "imagesrcset", "name", "poster", "rel", "src", "srcset"}
    | {"style", "type", "xlink:href"}
)
# The first of each pair is for plain HTML, the second for other contexts. `_STYLED` matches any element that may have a
# style with a URL; few pages need it.
_PLAIN, _WITH_CONTEXTS = (
    named(_LINK_ELEMENTS | raw_text.NAMES | contexts.OPENING),
    named(_LINK_ELEMENTS | raw_text.NAMES | contexts.CONTEXT_CHANGING),
)
_CLOSING = named(contexts.CLOSING)
# Frequent elements without links: their tags are skipped first, and quickly.
_SKIPPED = contexts.names(
    "abbr article aside b blockquote br center cite code dd div dl dt em figure font footer form h1 h2 h3 h4 h5 h6"
    " header hr i kbd label li main nav ol option p pre section small span strong sub sup tbody tr tt u ul var"
)
_PATTERNS = tag_pattern(_PLAIN, skipped=_SKIPPED), tag_pattern(_WITH_CONTEXTS, _CLOSING)
_STYLED = tag_pattern(f"{_PLAIN}|{STYLED}"), tag_pattern(f"{_WITH_CONTEXTS}|{STYLED}", _CLOSING)
_EVERY = tag_pattern(ANY_NAME, ANY_NAME)
_URL = re.compile(r"url\(")  # quicker than "in"
_TEMPLATE = re.compile(r"<(/?)template(?=[ \t\n\f\r/>])", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,8};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]*+(?:;|(?![=A-Za-z0-9])))")


Tag = tuple[str, dict[str, str]]
"""The name of a start tag, and its attributes."""

_BATCH = 1000


def tags(text: str, *, xhtml: bool = False) -> Iterator[Tag]:
    """Yield (name, attributes), names in lower case, of each start tag that may contain a link, in order.

    Comments and the content of script, style, textarea, title and xmp contain no tags; the content of noscript,
    noframes and template does. The content of a style element is given as its attribute "#text". Only attributes that
    are relevant to links are included, with their values as written; the first of a repeated name applies; those
    without a value are left out or "". A base within a template or SVG is left out. With `xhtml`, elements may be
    closed by "/>", and CDATA sections are text.
    """
    return chain.from_iterable(batches(text, xhtml=xhtml))


def batches(text: str, *, xhtml: bool = False) -> Iterator[list[Tag]]:
    """Yield the same tags in lists of a thousand or more, the last one of fewer: quicker than one by one."""
    return _TagReader(text, xhtml=xhtml).batches()


class _TagReader:
    """A reader of one text. `_branches` has the (position, context) of all interpretations, in order of position."""

    def __init__(self, text: str, *, xhtml: bool) -> None:
        self._text, self._xhtml = text, xhtml
        self._styled = "(" in text and (_URL.search(text) is not None or "image-set(" in text)
        self._ends = raw_text.Ends(text)
        self._branches: list[tuple[int, Context]] = [(0, contexts.HTML)]
        self._hidden_until = self._style_until = 0
        self._templates = self._counted = 0

    def batches(self) -> Iterator[list[Tag]]:
        """Yield the tags of all interpretations, always continuing the one furthest behind."""
        branches = self._branches
        found: list[Tag] = []
        while branches:
            self._read(*branches.pop(0), found)
            if len(found) >= _BATCH:
                yield found
                found = []
        if found:
            yield found

    def _read(self, position: int, context: Context, found: list[Tag]) -> None:
        """Add tags to `found` until another interpretation is further behind, or this one branches, changes its
        context, or has been read far enough for now.
        """
        styled, branches = self._styled, self._branches
        next_branch = branches[0][0] if branches else None
        every = contexts.nested(context)
        pattern = _EVERY if every else (_STYLED if styled else _PATTERNS)[bool(context)]
        matches = pattern.finditer(self._text, position)
        for match in islice(matches, _BATCH):
            if next_branch is not None and match.start() >= next_branch:
                self._continue_at(match.start(), context)
                return
            name, plain, href, rel, other, closed = match.groups()
            if name == "a" and plain and not every and not (styled and "url(" in plain):
                found.append((name, {"href": href or ""} if rel is None else {"href": href or "", "rel": rel}))
                continue
            if name is not None:
                if closed == "":
                    return
                name = name.lower()
                attributes = _plain_attributes(plain) if plain and name != "base" else _attributes(plain or other)
                if name in raw_text.NAMES:
                    self._continue_after(name, attributes, match, context)
                    found.append((name, attributes))
                    return
                if (attributes or name == "body") and (name != "base" or self._base_applies(match.start(), context)):
                    found.append((name, attributes))
                if not context and name not in contexts.OPENING:
                    continue
                after = contexts.opened(context, name, closed=_is_closed(plain, other))
            elif match[0] == "<!--":
                self._continue_at(self._ends.comment(match.end()), context)
                return
            elif match[0] == "<![CDATA[":
                self._cdata(match.end(), context)
                return
            elif context:
                after = contexts.closed(context, end_name(match[0]))
            else:
                continue
            if after != context:
                self._continue_at(match.end(), after)
                return
        if (following := next(matches, None)) is not None:
            self._continue_at(following.start(), context)

    def _continue_at(self, position: int | None, context: Context) -> None:
        """Add an interpretation that continues at a position (None: at none); merge those at the same position."""
        if position is None:
            return
        branches = self._branches
        index = bisect_left(branches, (position, contexts.HTML))
        if index < len(branches) and branches[index][0] == position:
            context = contexts.merged(context, branches.pop(index)[1])
        branches.insert(index, (position, context))

    def _cdata(self, position: int, context: Context) -> None:
        """Continue after a CDATA section, which exists only in XML; in HTML, it ends at the next ">"."""
        if context or self._xhtml:
            self._continue_at(self._ends.cdata(position), context)
        if not self._xhtml:
            self._continue_at(self._text.find(">", position) + 1 or None, context)

    def _continue_after(self, name: str, attributes: dict[str, str], match: re.Match[str], context: Context) -> None:
        """Continue after the content of a raw text element, or within it, or both."""
        position, closed = match.end(), _is_closed(match[2], match[5])
        if closed and self._xhtml:
            self._continue_at(position, context)
            return
        sure = not context
        content = self._ends.content(name, position, sure=sure)
        if content is not None:
            start, end = content
            if name == "style" and position >= self._style_until:  # several may share one end
                attributes["#text"], self._style_until = self._text[position:start], end
            self._continue_at(end, context)
            if self._text.find("<", position) == start:
                return
            self._hidden_until = max(self._hidden_until, end)
        if name in raw_text.HIDDEN:
            self._continue_at(position, context)
        elif not sure:
            foreign = contexts.is_foreign(context)
            self._continue_at(position, contexts.opened(context, name, closed=closed) if foreign else contexts.UNKNOWN)

    def _base_applies(self, position: int, context: Context) -> bool:
        """Return whether a base at this position applies: not in a template, in raw text, or in SVG or MathML."""
        for match in _TEMPLATE.finditer(self._text, self._counted, position):
            self._templates = max(self._templates + (-1 if match[1] else 1), 0)
        self._counted = max(self._counted, position)
        return not self._templates and position >= self._hidden_until and not contexts.is_foreign(context)


def _is_closed(plain: str | None, other: str | None) -> bool:
    """Return whether a tag ends in "/>", where the "/" is not part of a value."""
    if plain:
        return plain.endswith("/>")
    if other is None or not other.endswith("/"):
        return False
    return all(match.end() < len(other) for match in ATTRIBUTE.finditer(other))


def _plain_attributes(text: str) -> dict[str, str]:
    # A name followed by "=" and a quote cannot occur within a quoted value.
    attributes: dict[str, str] = {}
    for match in PLAIN_ATTRIBUTE.finditer(text):
        if match[1] in _RELEVANT:
            attributes.setdefault(match[1], match[2])
    return attributes


def _attributes(text: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for match in ATTRIBUTE.finditer(text):
        name, double, single, bare = match.groups("")
        if (name := name.lower()) in _RELEVANT:
            attributes.setdefault(name, double or single or bare)
    return attributes


def unescaped(value: str) -> str:
    """Return an attribute's value with its character references replaced.

    References without ";" are replaced only if neither "=" nor a letter or digit follows, which keeps "?a=1&copy=2".
    """
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    reference = match[0]
    return html.unescape(reference) if reference[1] == "#" else html5.get(reference[1:], reference)
