"""Links out of what was fetched, whatever its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

import can_ada
import msgspec

from budgetfrontier.crawl import robots
from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.links import css, html, http, text, xml
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


class Page(msgspec.Struct):
    """What an answer leads to, and whether it asks not to be kept or followed."""

    links: Iterator[tuple[str, str]]
    """(absolute href without fragment, hop), in order and once; read as they are asked for."""
    noindex: bool = False
    nofollow: bool = False


def discover(url: str, answer: Response, settings: LinkSettings, *, tags: bool, agent: str = "") -> Page:
    """Find the links of an answer to `url` (a normalized href): of its header, then of its body.

    Hops are L (what a reader may follow; the URLs of a sitemap), E (what the page embeds), R (a redirect by status,
    Refresh header or meta refresh, as in Heritrix) and I (a sitemap that an index names). A redirect leads to its
    Location alone; bodies are read of answers from 200 to 299: HTML, CSS, and by settings sitemaps (XML or text, in
    gzip or not) and feeds (RSS, Atom), told by media type and first bytes. With `tags`, the X-Robots-Tag header and
    robots meta elements count, those for every crawler and those for `agent`: `nofollow` leaves out the hops L and I.
    `settings.max_per_page` counts different links.

    Raises nothing, whatever was fetched. In memory are the text of a page and 16 MiB of links seen.
    """
    own = can_ada.parse(url)
    if location := resolve(own, answer.location):
        return Page(iter([(location, "R")]))
    follow = settings.rel_nofollow == "follow"
    page = html.Html(own, [], iter(()))
    if 200 <= answer.status < 300 and answer.body:
        page = _read(url, answer, settings, follow=follow) or page
    header = (
        (resolve(own, reference) or "", hop) for reference, hop in http.references(answer.headers, nofollow=follow)
    )
    links = unique(page.base, chain(header, page.references))
    noindex = nofollow = False
    if tags:
        metas = (content for name, content in page.metas if name in ("robots", agent.lower()))
        noindex, nofollow = robots.tags(chain(metas, http.values(answer.headers, "X-Robots-Tag")), agent)
    if nofollow:
        links = (link for link in links if link[1] not in "LI")
    return Page(islice(links, settings.max_per_page or None), noindex=noindex, nofollow=nofollow)


def sitemaps(body: bytes, url: str) -> Iterator[str]:
    """Yield the sitemaps that a robots.txt names, `url` being its own.

    https://www.sitemaps.org/protocol.html#submit_robots
    """
    named = ((match[1].decode("utf-8", "replace"), "I") for match in _SITEMAP.finditer(robots.lines(body)))
    return (href for href, _ in unique(can_ada.parse(url), named))


def _read(url: str, answer: Response, settings: LinkSettings, *, follow: bool) -> html.Html | None:
    """Read a body as what its media type and its first bytes say that it is."""
    mime, body, charset = answer.mime, answer.body, answer.charset
    if mime == "text/css":
        return html.Html(can_ada.parse(url), [], css.references(text.decode(body, charset=charset)[0]))
    is_html = mime in html.HTML_TYPES
    if is_html and not body[:_BEGINNING].lstrip(_BLANK).startswith(b"<?xml"):
        return _read_html(url, answer, follow=follow)
    if not (is_html or mime in _UNSURE or mime.endswith("xml")):
        return None
    pieces = xml.pieces(body)
    first = b""
    while len(first) < xml.SNIFFED and (piece := next(pieces, None)):
        first += piece
    kind = xml.kind(text.decode(first[: xml.SNIFFED], charset=charset)[0])
    if kind in _HTML_ROOTS and (is_html or not mime or (kind == "html" and mime.endswith("xml"))):
        return _read_html(url, answer, follow=follow)
    texts = xml.decoded(chain([first], pieces), text.encoding(first, charset=charset) or "utf-8")
    if kind == "text" and settings.sitemaps and mime in _UNSURE:
        references = xml.lines(texts)
    elif (kind in xml.SITEMAPS and settings.sitemaps) or (kind in xml.FEEDS and settings.feeds):
        references = xml.references(texts, url)
    else:
        return None
    return html.Html(can_ada.parse(url), [], references)


def _read_html(url: str, answer: Response, *, follow: bool) -> html.Html:
    whole, codec = text.decode(answer.body, charset=answer.charset)
    page = html.read(whole, url, nofollow=follow, xhtml=answer.mime.endswith("xml"))
    if codec.startswith("utf-") or whole.isascii():
        return page
    return page._replace(references=((text.encode_query(link, codec), hop) for link, hop in page.references))
