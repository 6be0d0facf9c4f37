"""Links out of a page, each with the hop it stands for: L for what a reader may follow, E for what the page embeds."""

from __future__ import annotations

import codecs
import re

import can_ada
from selectolax.lexbor import LexborHTMLParser

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

# A link element is told by its rel.
_LINKS = "a[href], area[href], link[href]"
_EMBEDS = ", ".join(f"{tag}[src]" for tag in ("img", "frame", "iframe", "embed", "script", "source", "audio", "video"))
_PARTS = frozenset({"stylesheet", "icon", "apple-touch-icon", "preload", "modulepreload", "prefetch", "manifest"})
_NOT_PAGES = frozenset({"dns-prefetch", "preconnect"})
_META_CHARSET = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Python's codecs that are no character sets of the web; some take quadratic time.
_NO_CHARSETS = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7", "mbcs", "oem"}


def extract(body: bytes, url: str, *, charset: str | None = None) -> list[tuple[str, str]]:
    """Return the (absolute http or https URL, hop) of each link of an HTML page, in order and once, without fragments.

    `url` is the page's own normalized href, `charset` what its Content-Type says. Takes about 1 ms for each 100 kB.
    """
    tree = LexborHTMLParser(decode(body, charset=charset))
    base = _base(tree, url)
    found: dict[str, str] = {}
    for node in tree.css(f"{_LINKS}, {_EMBEDS}"):
        attributes = node.attributes
        hop = _link_hop(attributes.get("rel")) if node.tag == "link" else "L" if node.tag in ("a", "area") else "E"
        href = resolve(base, attributes.get("href" if node.tag in ("a", "area", "link") else "src")) if hop else None
        if href is not None:
            found.setdefault(href, hop)
    return list(found.items())


def resolve(base: can_ada.URL, reference: str | None) -> str | None:
    """Return a reference as an absolute href without fragment; None if it is no http or https URL."""
    if not reference:
        return None
    try:
        href: str = (base + reference).href
    except (ValueError, TypeError):  # not a URL; or lone surrogates, which the binding cannot take
        return None
    return href.partition("#")[0] if href.startswith(("http://", "https://")) else None


def decode(body: bytes, *, charset: str | None = None) -> str:
    """Return a page as text: by its byte order mark, else `charset`, else its meta element, else as UTF-8.

    Bad bytes become U+FFFD.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    meta = None if charset else _META_CHARSET.search(body, 0, 4096)
    return body.decode(_codec(charset or (meta[1].decode("ascii", "replace") if meta else "utf-8")), "replace")


def _codec(label: str) -> str:
    try:
        codec = codecs.lookup(label.strip().strip("\"'"))
    except (LookupError, ValueError):
        return "utf-8"
    if codec.name in _NO_CHARSETS or not getattr(codec, "_is_text_encoding", True):
        return "utf-8"
    # Pages that say Latin-1 or ASCII mean Windows-1252: https://encoding.spec.whatwg.org/#names-and-labels
    return "cp1252" if codec.name in ("iso8859-1", "ascii") else codec.name


def _base(tree: LexborHTMLParser, url: str) -> can_ada.URL:
    """Return the page's base URL; the first base element with an href counts, if it is a URL."""
    own = can_ada.parse(url)
    element = tree.css_first("base[href]")
    href = resolve(own, element.attributes.get("href")) if element is not None else None
    return can_ada.parse(href) if href else own


def _link_hop(rel: str | None) -> str:
    """Return the hop of a link element, "" if it is none."""
    words = set((rel or "").lower().split())
    if words & _NOT_PAGES:
        return ""
    return "E" if words & _PARTS else "L"
