"""Links of sitemaps and feeds: which elements, streams, and XML that is broken or hostile."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

from budgetfrontier.crawler.links import xml

URL = "https://example.org/dir/feed"


def found(text: str, *, step: int = 1 << 16) -> list[tuple[str, str]]:
    return list(xml.references((text[start : start + step] for start in range(0, len(text), step)), URL))


SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="i" xmlns:video="v" xmlns:xhtml="h">
 <url><loc> https://example.org/?a=1&amp;b=<![CDATA[2&c]]> </loc><lastmod>2026-01-01</lastmod>
  <xhtml:link rel="alternate" hreflang="de" href="https://example.org/de"/>
  <image:image><image:loc>/i.png</image:loc></image:image>
  <video:video><video:thumbnail_loc>/t.png</video:thumbnail_loc><video:content_loc>/v</video:content_loc></video:video>
 </url></urlset>"""
RSS = """<rss version="2.0" xmlns:atom="a" xmlns:media="m"><channel>
 <link>https://example.org/</link><atom:link href="/feed" rel="self"/><image><url>/logo.png</url><link>/</link></image>
 <item><link>one</link><guid isPermaLink="false">two</guid><comments>/c</comments><enclosure url="/e.mp3"/>
  <media:content url="/m.png"/><media:thumbnail url="/t.png"/><source url="/other">o</source><url>/no</url></item>
 <item><guid>https://example.org/guid</guid></item><item><guid>no-url</guid></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://example.org/b/"><icon>i.png</icon><link href="x"/>
 <entry xml:base="c/"><link href="y" rel="alternate"/><link href="z.mp3" rel="enclosure"/><content src="w"/><id>no</id>
 </entry><link href="/v"/></feed>"""


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SITEMAP,
            "https://example.org/?a=1&b=2&c L https://example.org/de L /i.png E /t.png E /v E",
        ),
        ("<sitemapindex><sitemap><loc>/s.xml.gz</loc></sitemap></sitemapindex>", "/s.xml.gz I"),
        ("<sitemapindex><sitemap>\n/s.xml\n</sitemap><sitemap> <x/>/t</sitemap></sitemapindex>", "/s.xml I"),
        ("<sitemapindex><loc>/s</loc></sitemapindex>", "/s I"),
        ("<urlset><loc>/1</loc><url>/2</url></urlset>", "/1 L /2 L"),
        ("<sm:urlset xmlns:sm='s'><sm:url><sm:loc>/1</sm:loc></sm:url></sm:urlset>", "/1 L"),
        (
            RSS,
            "https://example.org/ L /feed L /logo.png E / L one L /c L /e.mp3 E /m.png E /t.png E /other L"
            " https://example.org/guid L",
        ),
        (
            "<r:RDF xmlns:r='r'><channel><link>/c</link></channel><item r:about='i'><link>/i</link></item></r:RDF>",
            "/c L /i L",
        ),
        (
            ATOM,
            "https://example.org/b/i.png E https://example.org/b/x L https://example.org/b/c/y L"
            " https://example.org/b/c/z.mp3 E https://example.org/b/c/w E https://example.org/v L",
        ),
        ("<rss><link></link><link>  </link><link/></rss>", ""),
        ("<feed xml:base='javascript:0'><link href='x'/></feed>", "x L"),
    ],
)
def test_elements_and_their_hops(text: str, expected: str, step: int) -> None:
    words = expected.split()
    assert [pair for pair in found(text, step=step) if pair[0]] == list(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize(
    "rest",
    [
        "<link>/2",
        "<link>/2</li",
        "<!-- <link>/2</link>",
        "<![CDATA[<link>/2</link>",
        "<" + "a>" + "<a>" * 200 + "<link>/2</link>",
        "<a b='" + "x" * (3 << 20) + "'/><link>/2</link>",
    ],
)
def test_what_stands_before_what_never_ends_counts(rest: str) -> None:
    assert found("<rss><link>/1</link>" + " " * (1 << 16) + rest) == [("/1", "L")]


@pytest.mark.parametrize(
    "declarations",
    [
        "<!ENTITY a '/x'>",
        "<!ENTITY a SYSTEM 'file:///etc/passwd'>",
        "<!ENTITY % p SYSTEM 'http://example.org/p'> %p;",
        "<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;'>",
        "<!ATTLIST link href CDATA '/x'>",
        "",
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_declarations_count_for_nothing(declarations: str, step: int) -> None:
    text = f"<!DOCTYPE rss [{declarations}]><rss><link>/1</link><link>&a;</link><link>/?x&amp;y</link><link/></rss>"
    assert found(text, step=step) == [("/1", "L"), ("/?x&y", "L")]


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    "odd",
    [
        "&nbsp;",
        "\x00\x01\ufffd",
        "<a b='1' b='2'/>",
        "<a b='1'c='2'>",
        "<item></channel>",
        "</item>",
        "a < b, c<d, <3",
        "<",
        "<!ELEMENT x>",
        "<?php x?>",
        "<!-- <link>/no</link> -- -->",
        "<br><b>",
        "<rss></rss>",
        "]]>",
        "<a b=>",
        "<a b='<'>",
    ],
)
def test_what_is_not_well_formed_is_passed_over(odd: str, step: int) -> None:
    text = f"{odd}<?xml version='1.0'?>{odd}<rss>{odd}<link>/1</link>{odd}<link>/?a=1&b=2</link>{odd}</rss>"
    assert found(text, step=step) == [("/1", "L"), ("/?a=1&b=2", "L")]


def test_a_document_type_without_declarations_is_read() -> None:
    doctype = "<!DOCTYPE rss PUBLIC '-//Netscape//DTD RSS 0.91//EN' 'http://my.netscape.com/rss-0.91.dtd'>"
    assert found(f"{doctype}<rss><link>/1</link></rss>") == [("/1", "L")]


def test_long_texts_are_no_urls() -> None:
    assert found("<rss><link>/" + "x" * 100_000 + "</link><link>/1</link></rss>") == [("/1", "L")]


def test_gzip_is_read_in_pieces_up_to_a_limit() -> None:
    sizes = [len(piece) for piece in xml.pieces(gzip.compress(bytes(60 << 20)))]
    assert max(sizes) <= 1 << 16
    assert xml.MAX_SIZE <= sum(sizes) <= xml.MAX_SIZE + (1 << 16)


def test_many_empty_members_of_gzip_end() -> None:
    assert list(xml.pieces(gzip.compress(b"") * 100_000 + gzip.compress(b"x"))) == [b"x"]


@pytest.mark.parametrize("cut", [2, 10, 30, -1])
def test_broken_gzip_gives_what_it_can(cut: int) -> None:
    whole = bytes(range(256)) * 100
    assert whole.startswith(b"".join(xml.pieces(gzip.compress(whole)[:cut])))
    assert b"".join(xml.pieces(gzip.compress(whole) + b"junk")) == whole
    with pytest.raises(zlib.error):
        zlib.decompress(gzip.compress(whole)[:cut], 31)


def test_plain_bodies_are_cut_into_pieces() -> None:
    assert [len(piece) for piece in xml.pieces(bytes(100_000))] == [16384] * 6 + [1696]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("<?xml version='1.0'?>\n<!-- <rss> --><!DOCTYPE feed><a:RSS x='y'>", "rss"),
        ("<!DOCTYPE html PUBLIC 'x'><HTML>", "html"),
        ("https://example.org/1\r\nhttps://example.org/2", "text"),
        ("https://example.org/1 a page", ""),
        ("{}", ""),
        ("<br />\n<b>Notice</b>: x on line <b>3</b><br />\n<?xml version='1.0'?><urlset>", "urlset"),
        ("Warning: x\n<sm:sitemapindex xmlns:sm='s'>", "sitemapindex"),
        ("<html><pre><rss>", "html"),
        ("<!-- " + "<rss>" * 100, ""),
        ("", ""),
    ],
)
def test_kind(head: str, kind: str) -> None:
    assert xml.kind(head) == kind


@pytest.mark.parametrize("step", [1, 5, 100])
def test_lines_of_a_text_sitemap(step: int) -> None:
    text = "http://h/1\r\n\n  HTTP://h/2 \nno url\n" + "x" * 20_000 + "http://h/no\nhttp://h/3"
    texts: Iterator[str] = (text[start : start + step] for start in range(0, len(text), step))
    assert [url for url, _ in xml.lines(texts)] == ["http://h/1", "HTTP://h/2", "http://h/3"]


def test_text_is_decoded_across_pieces() -> None:
    data = "\ufeff \r\n<é€>".encode()
    assert "".join(xml.decoded((data[start : start + 1] for start in range(len(data))), "utf-8")) == "<é€>"
