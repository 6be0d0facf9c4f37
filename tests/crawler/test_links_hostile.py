"""Pages that were made to hurt: nothing raises, and work and memory grow no faster than the page."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import discover, sitemaps
from budgetfrontier.settings.schema import LinkSettings
from tests.sizes import sized
from tests.support import PATIENCE

pytestmark = pytest.mark.full_size

URL = "https://example.org/dir/page"
ROOT = Path(__file__).parents[2]
SIZE = sized(1 << 18, 1 << 19)
ROOM = sized(64, 128) << 20
"""How much more memory all of these pages may need than the interpreter has: much less than a tree of one of them."""

HTML, XML, GZIP, CSS = "text/html", "text/xml", "application/gzip", "text/css"


def times(text: str, before: str = "", after: str = "") -> bytes:
    return (before + text * (SIZE // len(text)) + after).encode()


def counted(text: str, before: str = "", after: str = "") -> bytes:
    """`text` again and again, with another number for each %d."""
    return (before + "".join(text.replace("%d", str(number)) for number in range(SIZE // len(text))) + after).encode()


PAGES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "links": (HTML, lambda: counted("<a href=/%d>")),
    "one link": (HTML, lambda: times("<a href=/1>")),
    "wide characters": (HTML, lambda: counted("<a href=/%d>", "😀")),
    "long base": (HTML, lambda: counted("<a href=%d>", f"<base href=/{'b' * 8000}/>")),
    "long links": (HTML, lambda: counted(f"<a href={'b' * 8000}%d>")),
    "nested": (HTML, lambda: times("<div>")),
    "unclosed formatting": (HTML, lambda: counted("<b i=%d>", "<p>", "</p>" + "<p>x</p>" * 100_000)),
    "closing what is not open": (HTML, lambda: times("<div>") + times("</span>")),
    "open tags": (HTML, lambda: times("<a ")),
    "open tags with quotes": (HTML, lambda: times("<a href='")),
    "open quotes": (HTML, lambda: times("<a title=\"x' ")),
    "opened by others": (HTML, lambda: times("<b <")),
    "half plain": (HTML, lambda: times('<a x="y"" ')),
    "attributes": (HTML, lambda: counted("a%d ", "<a ", ">")),
    "attributes with values": (HTML, lambda: counted('a%d="x" ', "<img ", ">")),
    "a long name": (HTML, lambda: times("a", "<img ", ">")),
    "a long tag name": (HTML, lambda: times("a", "<", ">")),
    "a long value": (HTML, lambda: times("x", "<a href='", "'>")),
    "equals signs": (HTML, lambda: times("=", "<a ", ">")),
    "slashes": (HTML, lambda: times("/", "<a ", ">")),
    "spaces in a tag": (HTML, lambda: times(" ", "<a ", ">")),
    "comments": (HTML, lambda: times("<!--")),
    "ends of comments": (HTML, lambda: times("--", "<!--")),
    "scripts": (HTML, lambda: times("<script>")),
    "ends of scripts": (HTML, lambda: times("</script", "<script>")),
    "titles": (HTML, lambda: times("<title></title >")),
    "titles in SVG": (HTML, lambda: times("<title>", "<svg>", "</title>")),
    "styles in SVG": (HTML, lambda: times("<style>", "<svg>", "url(x)</style>")),
    "scripts in SVG": (HTML, lambda: times("<script><!---->", "<svg>", "</script>")),
    "scripts in scripts": (HTML, lambda: times("<script><!--<script>", "<svg>", "--></script>")),
    "CDATA": (HTML, lambda: times("<![CDATA[>", "<svg>", "]]>")),
    "open tags in SVG": (HTML, lambda: times("<title><a x='", "<svg>")),
    "SVG in SVG": (HTML, lambda: times("<svg><desc>")),
    "iframes": (HTML, lambda: times("<iframe>", after="</iframe>")),
    "bases in templates": (HTML, lambda: times("<template><base href=x>")),
    "bogus comments": (HTML, lambda: times("<!x<?x</ x")),
    "references": (HTML, lambda: times("&", "<a href='", "'>")),
    "a long reference": (HTML, lambda: times("a", "<a href='&", "'>")),
    "digits of a reference": (HTML, lambda: times("9", "<a href='&#", ";'>")),
    "srcset of commas": (HTML, lambda: times(",", "<img srcset='", "'>")),
    "srcset of parentheses": (HTML, lambda: times("(", "<img srcset='a ", "'>")),
    "srcset": (HTML, lambda: counted("%d 1x,", "<img srcset='", "'>")),
    "refresh": (HTML, lambda: times(" ", "<meta http-equiv=refresh content='0", "'>")),
    "metas": (HTML, lambda: times("<meta name=robots content=x>")),
    "charsets": (HTML, lambda: times("<meta charset ")),
    "rels": (HTML, lambda: times("x ", "<link href=a rel='", "'>")),
    "style attributes": (HTML, lambda: counted("<b style='a:url(/%d)'>")),
    "open styles": (HTML, lambda: times("<b style='url(")),
    "elements before a style": (HTML, lambda: times("<b ", after="url(")),
    "tags before a style": (HTML, lambda: times("<b u>", after="url(")),
    "styles": (HTML, lambda: times("<style>url(/1)</style>")),
    "url(": (CSS, lambda: times("url(")),
    "links of a style sheet": (CSS, lambda: counted("url(%d)")),
    "imports": (CSS, lambda: times("@import ")),
    "comments of a style sheet": (CSS, lambda: times("/*")),
    "ends of comments of a style sheet": (CSS, lambda: times("*/")),
    "stars": (CSS, lambda: times("*", "/*")),
    "quotes": (CSS, lambda: times("'\n\"")),
    "backslashes": (CSS, lambda: times("\\", "url(")),
    "sitemap": (XML, lambda: counted("<url><loc>/%d</loc></url>", "<urlset>", "</urlset>")),
    "one link in gzip": (GZIP, lambda: gzip.compress(times("<url><loc>/1</loc></url>", "<urlset>"))),
    "zeros in gzip": (GZIP, lambda: gzip.compress(b"<urlset>") + gzip.compress(bytes(SIZE)) * 64),
    "spaces in gzip": (GZIP, lambda: gzip.compress(b"<urlset>") + gzip.compress(b" " * SIZE) * 64),
    "members of gzip": (GZIP, lambda: gzip.compress(b"<urlset>") + gzip.compress(b"") * (SIZE // 20)),
    "text in gzip": (GZIP, lambda: gzip.compress(b"http://h/1\n") + gzip.compress(b"x" * SIZE) * 64),
    "nested elements": (XML, lambda: times("<a>", "<rss>")),
    "a long token": (XML, lambda: times("x", "<rss><a b='") * 4),
    "a long namespace": (XML, lambda: counted("<a%d/>", f"<rss xmlns='{'n' * SIZE}'>")),
    "a long base in XML": (XML, lambda: times("<link href='x'/>", f"<feed xml:base='/{'b' * 8000}/'>")),
    "bases": (XML, lambda: times("<link xml:base='/x/' href='y'/>", "<feed>")),
    "entities": (XML, lambda: times("<!ENTITY a 'a'>", "<!DOCTYPE rss [", "]><rss>&a;</rss>")),
    "tags that are none": (XML, lambda: times("<</a <!", "<rss>")),
    "quotes in tags": (XML, lambda: times("<a b='\"", "<rss>")),
    "ends of what is not open": (XML, lambda: times("</a>", "<rss>" * 99)),
    "comments before the root": (XML, lambda: times("<!---->", "", "<rss/>")),
    "lines": ("text/plain", lambda: counted("http://h/%d\n")),
}
"""Name, media type and a function that makes the body, of about SIZE bytes, or of a few that are more."""


def consume(body: bytes, mime: str, *headers: tuple[str, str]) -> int:
    """Discover, check what comes, return how many."""
    answer = FetchResult(status=200, headers={"Content-Type": mime, **dict(headers)}, body=body)
    count = 0
    for href, hop in discover(URL, answer, LinkSettings(), agent="bot").links:
        count += 1
        assert href.startswith(("http://", "https://")) and "#" not in href and href.isascii() and hop in "LERI"
        assert len(href) <= uris.MAX_LENGTH
    return count


def test_work_and_memory_grow_no_faster_than_the_page() -> None:
    command = [sys.executable, "-m", "tests.crawler.test_links_hostile"]  # in a process of its own, from the root
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "done"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("links", "<a href=/%d>"),
        ("srcset", "%d 1x,"),
        ("sitemap", "<url><loc>/%d</loc></url>"),
        ("lines", "http://h/%d\n"),
    ],
)
def test_every_link_of_a_long_page_is_found(name: str, text: str) -> None:
    mime, make = PAGES[name]
    assert consume(make(), mime) == SIZE // len(text)


_MIMES = st.sampled_from([HTML, XML, GZIP, CSS, "", "text/plain", "application/xhtml+xml", "application/octet-stream"])
_CHARSETS = st.sampled_from(["", *(f"; charset={name}" for name in ("utf-8", "utf-16", "big5", "iso-2022-jp", "\0"))])
_TOKENS = (
    r"""<a |href|=|"|'|>|</a>|<base |<meta |name|robots|content|none|http-equiv|refresh|0;url=|<link |rel|srcset
1x, |<img |<!--|-->|<script>|</script>|&amp;|&#|;|http://|//|javascript:|data:|file:|\|?|#|..|%|xn--|[::1]|@|:80|é|x|/
<urlset>|<url>|<loc>|</loc>|<rss>|<link>|</link>|<feed |xml:base|<?xml version='1.0' encoding='|'?>|<!DOCTYPE|[|]>
<![CDATA[|]]>|<style>|</style>|<b style=|url(|)|@import |/*|*/""".replace("\n", "|")
    .encode()
    .split(b"|")
)
_BYTES = [b"\x00", b"\t", b"\n", b" ", b"\xff", b"\xed\xa0\x80", b"\x1f\x8b\x08", b"\xff\xfe", b"\xd0\xb0pple.test"]
_WORDS = st.sampled_from([*_TOKENS, *_BYTES])


@given(st.binary(max_size=300) | st.lists(_WORDS, max_size=40).map(b"".join), _MIMES, _CHARSETS, st.booleans())
def test_no_body_raises(body: bytes, mime: str, charset: str, compressed: bool) -> None:
    consume(gzip.compress(body) if compressed else body, mime + charset)


@given(st.text(max_size=100), st.text(max_size=100), st.binary(max_size=100))
def test_no_header_and_no_robots_txt_raises(link: str, other: str, robots: bytes) -> None:
    consume(b"", HTML, ("Link", link), ("Refresh", other), ("X-Robots-Tag", other))
    consume(b"", other, ("Link", f"<{link}>; rel={other}"), ("Refresh", f"0;url={other}"), ("Location", link))
    assert all(href.startswith("http") for href in sitemaps(b"Sitemap: " + robots, URL))


def _main() -> None:
    pages = Path("/proc/self/statm")
    if pages.exists():  # elsewhere such limits are not kept
        size = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    for name, (mime, make) in PAGES.items():
        print(name, flush=True)
        consume(make(), mime)
    for line in ("Link", "Refresh", "X-Robots-Tag"):
        for text in ("<", "<a>;", '<a>; rel="', '"', ", ", "a:", "a,", "; ", "\\"):
            print(line, text, flush=True)
            consume(b"", HTML, (line, text * (1 << 16)))
    print(sum(1 for _ in sitemaps(times("Sitemap: ") + times(" \t") + counted("\nSitemap:/%d"), URL)))
    print("done")


if __name__ == "__main__":
    _main()
