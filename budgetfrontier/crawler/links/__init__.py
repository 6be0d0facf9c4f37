"""Link extraction from responses: HTTP headers, HTML, CSS, sitemaps and feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

import can_ada
import msgspec

from budgetfrontier.crawler import installed as _installed  # noqa: F401
from budgetfrontier.crawler import robots_tags, robots_txt
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import css, html, http, page_text, xml
from budgetfrontier.crawler.links.url_resolution import resolve, unique
from budgetfrontier.settings.schema import LinkSettings

__all__ = ["PageLinks", "discover", "resolve", "sitemaps"]

_SITEMAP = re.compile(rb"^[ \t]*+sitemap[ \t]*+:[ \t]*+([^\s#]++)", re.IGNORECASE | re.MULTILINE)
_AMBIGUOUS_TYPES = frozenset(
    {"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/gzip", "application/x-gzip"}
)
_HTML_ROOTS = frozenset(
    {"html", "head", "title", "meta", "link", "script", "style", "body", "a", "b", "br", "div", "h1", "p", "table"}
)
_BEGINNING = 64
_FAVICON = (("/favicon.ico", "E"),)
_LEADING_SPACE = b"\xef\xbb\xbf \t\r\n"


class PageLinks(msgspec.Struct):
    """The links of a response, and the robots directives that it contains, whether they are obeyed or not."""

    links: Iterator[tuple[str, str]]
    """(absolute href without fragment, hop), in order, each once; extracted lazily."""
    noindex: bool = False
    nofollow: bool = False


def discover(
    url: str, response: FetchResult, settings: LinkSettings, *, agent: str = "", declared: bool = False
) -> PageLinks:
    """Return the links of a response to `url` (a normalized href): those of its header, then those of its body.

    Hops are L (navigational links; URLs of a sitemap), E (embedded resources), R (redirects by status, Refresh header
    or meta refresh, as in Heritrix) and I (sitemaps listed in an index). A redirect has its Location as the only link.
    Bodies are read if the status is 200 to 299: HTML, CSS, and depending on the settings sitemaps (XML or text,
    compressed with gzip or not) and feeds (RSS, Atom); media type and first bytes determine the format. The
    URL of a sitemap that was `declared`, in robots.txt or an index, is read as one whatever its media type is. The
    X-Robots-Tag header and robots meta elements for all crawlers or for `agent` are read: `nofollow` drops the links
    with hops L and I, depending on the settings. `settings.max_per_page` limits the number of distinct links.

    Raises nothing, whatever was fetched. Keeps the text of the page and up to 16 MiB of links in memory.
    """
    page_url = can_ada.parse(url)
    if location := resolve(page_url, response.location):
        return PageLinks(iter([(location, "R")]))
    follow = settings.rel_nofollow == "follow"
    page = html.Html(page_url, [], iter(()))
    if 200 <= response.status < 300 and response.body:
        page = _read(url, response, settings, follow=follow, declared=declared and settings.sitemaps) or page
    header = (
        (resolve(page_url, reference) or "", hop)
        for reference, hop in chain(
            http.references(response.headers, nofollow=follow),
            _FAVICON if settings.favicon and response.status == 200 and response.mime in html.HTML_TYPES else (),
        )
    )
    links = unique(page.base, chain(header, page.references))
    metas = (content for name, content in page.metas if name in ("robots", agent.lower()))
    noindex, nofollow = robots_tags.tags(chain(metas, http.values(response.headers, "X-Robots-Tag")), agent)
    if nofollow and settings.nofollow == "skip":
        links = (link for link in links if link[1] not in "LI")
    return PageLinks(islice(links, settings.max_per_page or None), noindex=noindex, nofollow=nofollow)


def sitemaps(body: bytes, url: str) -> Iterator[str]:
    """Yield the URLs of the sitemaps that a robots.txt lists; `url` is that of the robots.txt itself.

    https://www.sitemaps.org/protocol.html#submit_robots
    """
    named = ((match[1].decode("utf-8", "replace"), "I") for match in _SITEMAP.finditer(robots_txt.lines(body)))
    return (href for href, _ in unique(can_ada.parse(url), named))


def _read(url: str, response: FetchResult, settings: LinkSettings, *, follow: bool, declared: bool) -> html.Html | None:
    """Read a body in the format given by its media type and first bytes; return None if it is not one with links.

    That of a `declared` sitemap is given by its first bytes alone.
    """
    mime, body, charset = response.mime, response.body, response.charset
    if mime == "text/css" and not declared:
        return html.Html(can_ada.parse(url), [], css.references(page_text.decode(body, charset=charset)[0]))
    is_html = mime in html.HTML_TYPES
    if is_html and not declared and not body[:_BEGINNING].lstrip(_LEADING_SPACE).startswith(b"<?xml"):
        return _read_html(url, response, follow=follow)
    if not (declared or is_html or mime in _AMBIGUOUS_TYPES or mime.endswith("xml")):
        return None
    pieces = xml.pieces(body)
    first = b""
    while len(first) < xml.SNIFFED and (piece := next(pieces, None)):
        first += piece
    kind = xml.kind(page_text.decode(first[: xml.SNIFFED], charset=charset)[0])
    if kind in _HTML_ROOTS and (is_html or not mime or (kind == "html" and mime.endswith("xml"))):
        return _read_html(url, response, follow=follow)
    texts = xml.decoded(chain([first], pieces), page_text.encoding(first, charset=charset) or "utf-8")
    if (declared and kind not in xml.SITEMAPS | xml.FEEDS) or (
        kind == "text" and settings.sitemaps and mime in _AMBIGUOUS_TYPES
    ):
        references = xml.lines(texts)
    elif (kind in xml.SITEMAPS and settings.sitemaps) or (kind in xml.FEEDS and (settings.feeds or declared)):
        references = xml.references(texts, url)
    else:
        return None
    return html.Html(can_ada.parse(url), [], references)


def _read_html(url: str, response: FetchResult, *, follow: bool) -> html.Html:
    whole, codec = page_text.decode(response.body, charset=response.charset)
    page = html.read(whole, url, nofollow=follow, xhtml=response.mime.endswith("xml"))
    if codec.startswith("utf-"):
        return page  # others are encoded even if all bytes are ASCII: character references need not be
    return page._replace(references=((page_text.encode_query(link, codec), hop) for link, hop in page.references))
