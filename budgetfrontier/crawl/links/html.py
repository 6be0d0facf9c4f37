"""Links out of a page, each with the hop it stands for: L for what a reader may follow, E for what the page embeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import can_ada

from budgetfrontier.crawl.links import css
from budgetfrontier.crawl.links.tags import tags, unescaped
from budgetfrontier.crawl.links.urls import resolve

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})

_EMBEDS = {
    **dict.fromkeys(("audio", "embed", "frame", "iframe", "img", "script", "source", "track"), ("src",)),
    **dict.fromkeys(("body", "table", "td", "th"), ("background",)),
    "image": ("src", "href", "xlink:href"),
    "object": ("data",),
    "video": ("src", "poster"),
}
_SETS = {"img": "srcset", "source": "srcset", "link": "imagesrcset"}
# A link element is told by its rel.
_PARTS = frozenset({"stylesheet", "icon", "apple-touch-icon", "preload", "modulepreload", "prefetch", "manifest"})
_NOT_PAGES = frozenset({"dns-prefetch", "preconnect"})
# https://html.spec.whatwg.org/multipage/images.html#parsing-a-srcset-attribute
_CANDIDATE = re.compile(r"([^\s,]\S*+)(?:(?<!,)\s(?:[^,(]++|\([^)]*+\)?+)*+)?+")
# https://html.spec.whatwg.org/multipage/semantics.html#shared-declarative-refresh-steps
_REFRESH = re.compile(
    r"""\s*+[0-9.]++(?:\s*+[;,]|\s)\s*+(?:url\s*+=\s*+)?+(?:"([^"]*+)|'([^']*+)|(.*))""", re.IGNORECASE | re.DOTALL
)
_BASE = re.compile(r"<[bB][aA][sS][eE][ \t\n\f\r/]")
_HEAD = frozenset({"base", "link", "meta", "script", "style", "title", "object"})
_LONGEST_HEAD = 1000


class Html(NamedTuple):
    """An HTML page: what its links are relative to, what its metas say, and its references, read when asked for."""

    base: can_ada.URL
    metas: list[tuple[str, str]]
    """(name, content) of the meta elements in the head, names in lower case."""
    references: Iterator[tuple[str, str]]
    """(reference as written, hop)."""


def read(text: str, url: str, *, nofollow: bool = True, xhtml: bool = False) -> Html:
    """Read the head of an HTML page, and its links as they are asked for; with `nofollow=False`, those that are marked
    rel=nofollow, ugc or sponsored are left out. `xhtml` says that the page is XML.

    `url` is the page's own normalized href. The first base element that has an href counts, wherever it stands, for
    links before it, too; one that is no http or https URL stands for the page's own. Forms are not sent, and scripts
    not run. Raises nothing. About 2 us a link.
    """
    found = tags(text, xhtml=xhtml)
    head: list[tuple[str, dict[str, str]]] = []
    for tag in found:
        head.append(tag)
        if tag[0] not in _HEAD or len(head) >= _LONGEST_HEAD:
            break
    based = _base(head)
    if based is None and _BASE.search(text):
        based = _base(tags(text, xhtml=xhtml))
    own = can_ada.parse(url)
    absolute = resolve(own, based)
    metas = [
        (unescaped(tag["name"]).strip().lower(), unescaped(tag["content"]))
        for name, tag in head
        if name == "meta" and "name" in tag and "content" in tag
    ]
    references = _references(itertools.chain(head, found), nofollow=nofollow)
    return Html(can_ada.parse(absolute) if absolute else own, metas, references)


def _base(found: Iterable[tuple[str, dict[str, str]]]) -> str | None:
    """Return what the first base says that says anything."""
    return next((unescaped(tag["href"]) for name, tag in found if name == "base" and "href" in tag), None)


def _references(found: Iterable[tuple[str, dict[str, str]]], *, nofollow: bool) -> Iterator[tuple[str, str]]:
    for name, tag in found:
        if name == "a" or name == "area":
            if "href" in tag and (nofollow or "rel" not in tag or NOFOLLOW.isdisjoint(tag["rel"].lower().split())):
                href = tag["href"]
                yield unescaped(href) if "&" in href else href, "L"
            elif "xlink:href" in tag:  # of SVG
                yield unescaped(tag["xlink:href"]), "L"
            if "style" not in tag:
                continue
        if name == "link":
            hop = link_hop(tag.get("rel", ""))
            if hop and "href" in tag:
                yield unescaped(tag["href"]), hop
        elif name == "meta":
            if tag.get("http-equiv", "").lower() == "refresh" and (
                target := refresh(unescaped(tag.get("content", "")))
            ):
                yield target, "R"
        elif name == "input" and "src" in tag and tag.get("type", "").lower() == "image":
            yield unescaped(tag["src"]), "E"
        for key in _EMBEDS.get(name, ()):
            if key in tag:
                yield unescaped(tag[key]), "E"
        if name in _SETS and _SETS[name] in tag:
            for reference in _CANDIDATE.findall(unescaped(tag[_SETS[name]])):
                yield reference.rstrip(","), "E"
        if "style" in tag:
            yield from css.references(unescaped(tag["style"]))
        if "#text" in tag:
            yield from css.references(tag["#text"])


def link_hop(rel: str) -> str:
    """Return the hop of a link element, or of a link in an HTTP header, by its rel; "" if it leads nowhere."""
    words = rel.lower().split()
    if not _NOT_PAGES.isdisjoint(words):
        return ""
    return "L" if _PARTS.isdisjoint(words) else "E"


def refresh(content: str) -> str | None:
    """Return where a refresh leads ("5; url=next"), as it is written; None if it names no URL."""
    match = _REFRESH.match(content)
    return (match[1] or match[2] or match[3] or "").strip() or None if match else None
