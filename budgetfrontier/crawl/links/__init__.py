"""Links out of what was fetched, whatever its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

import can_ada
import msgspec

from budgetfrontier.crawl.fetch.answer import Answer
from budgetfrontier.crawl.links import html, http, text, xml
from budgetfrontier.crawl.links.urls import resolve, unique
from budgetfrontier.settings.schema import LinkSettings

__all__ = ["Page", "discover", "resolve", "sitemaps"]

_SITEMAP = re.compile(rb"^[ \t]*+sitemap[ \t]*+:[ \t]*+([^\s#]++)", re.IGNORECASE | re.MULTILINE)
_UNSURE = frozenset(
    {"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/gzip", "application/x-gzip"}
)
_HTML_ROOTS = frozenset(
    {"html", "head", "title", "meta", "link", "script", "style", "body", "a", "b", "br", "div", "h1", "p", "table"}
)
_BEGINNING = 64
_BLANK = b"\xef\xbb\xbf \t\r\n"
# Robots directives that have a value after a colon, which looks like the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Page(msgspec.Struct):
    """What an answer leads to, and whether it asks not to be kept or followed."""

    links: Iterator[tuple[str, str]]
    """(absolute href without fragment, hop), in order and once; read as they are asked for."""
    noindex: bool = False
    nofollow: bool = False


def discover(url: str, answer: Answer, settings: LinkSettings, *, tags: bool, agent: str = "") -> Page:
    """Find the links of an answer to `url` (a normalized href): of its header, then of its body.

    Hops are L (what a reader may follow; the URLs of a sitemap), E (what the page embeds), R (a redirect by status,
    Refresh header or meta refresh, as in Heritrix) and I (a sitemap that an index names). A redirect leads to its
    Location alone; bodies are read of answers from 200 to 299: HTML, and by settings sitemaps (XML or text, with gzip
    or without) and feeds (RSS, Atom), told by media type and first bytes. With `tags`, the X-Robots-Tag header and
    robots meta elements count, those for every crawler and those for `agent`: `nofollow` leaves out the hops L and I.
    `settings.max_per_page` counts different links.

    Raises nothing, whatever was fetched. What is kept in memory is the text of a page and its last 65,536 links.
    """
    own = can_ada.parse(url)
    if location := resolve(own, http.location(answer.location)):
        return Page(iter([(location, "R")]))
    follow = settings.rel_nofollow == "follow"
    page = html.Html(own, [], iter(()))
    if 200 <= answer.status < 300 and answer.body:
        page = _read(url, answer, settings, follow=follow)
    words = _robots(answer, page, agent.lower()) if tags else set()
    header = (
        (resolve(own, reference) or "", hop) for reference, hop in http.references(answer.headers, nofollow=follow)
    )
    links = unique(page.base, chain(header, page.references))
    nofollow = not words.isdisjoint(("nofollow", "none"))
    if nofollow:
        links = (link for link in links if link[1] not in "LI")
    if settings.max_per_page:
        links = islice(links, settings.max_per_page)
    return Page(links, noindex=not words.isdisjoint(("noindex", "none")), nofollow=nofollow)


def sitemaps(body: bytes, url: str) -> Iterator[str]:
    """Yield the sitemaps that a robots.txt names, `url` being its own. https://www.sitemaps.org/protocol.html#submit_robots"""
    named = ((match[1].decode("utf-8", "replace"), "I") for match in _SITEMAP.finditer(body))
    return (href for href, _ in unique(can_ada.parse(url), named))


def _read(url: str, answer: Answer, settings: LinkSettings, *, follow: bool) -> html.Html:
    """Read a body as what its media type and its first bytes say that it is."""
    mime, body, charset = answer.mime, answer.body, answer.charset
    if mime in html.HTML_TYPES and not body[:_BEGINNING].lstrip(_BLANK).startswith(b"<?xml"):
        return html.read(text.decode(body, charset=charset), url, nofollow=follow)
    none = html.Html(can_ada.parse(url), [], iter(()))
    if mime not in _UNSURE and mime not in html.HTML_TYPES and not mime.endswith("xml"):
        return none
    pieces = xml.pieces(body)
    first = next(pieces, b"")
    kind = xml.kind(text.decode(first[: xml.SNIFFED], charset=charset).lstrip("\ufeff"))
    if kind in _HTML_ROOTS and (not mime or mime in html.HTML_TYPES or (kind == "html" and mime.endswith("xml"))):
        return html.read(text.decode(body, charset=charset), url, nofollow=follow)
    texts = xml.decoded(chain([first], pieces), text.encoding(first, charset=charset) or "utf-8")
    if kind == "text" and settings.sitemaps and mime in _UNSURE:
        return none._replace(references=xml.lines(texts))
    if (kind in xml.SITEMAPS and settings.sitemaps) or (kind in xml.FEEDS and settings.feeds):
        return none._replace(references=xml.references(texts, url))
    return none


def _robots(answer: Answer, page: html.Html, agent: str) -> set[str]:
    """Return the words that robots tags have for this crawler, in lower case."""
    said = [content for name, content in page.metas if name in ("robots", agent)]
    for value in http.values(answer.headers, "X-Robots-Tag"):
        name, colon, rest = value.partition(":")
        named = name.strip().lower()
        if not colon or "," in name or named in _VALUED:
            said.append(value)
        elif named in ("robots", agent):
            said.append(rest)
    return {word.strip() for content in said for word in content.lower().split(",")}
