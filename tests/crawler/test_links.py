"""What an answer leads to: which part of it is read as what, robots tags, limits."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from multidict import CIMultiDict

from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import PageLinks, discover, resolve, sitemaps
from budgetfrontier.settings.schema import LinkSettings

URL = "https://example.org/dir/page"
SITEMAP = b"<?xml version='1.0'?><urlset><url><loc>https://example.org/1</loc></url></urlset>"
RSS = b"<rss><channel><link>https://example.org/1</link></channel></rss>"
ATOM = b"<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://example.org/1'/></feed>"
ONE = [("/1", "L")]


def page(
    body: bytes = b"",
    mime: str | None = "text/html",
    *headers: tuple[str, str],
    status: int = 200,
    agent: str = "",
    declared: bool = False,
    **settings: Any,
) -> PageLinks:
    sent = CIMultiDict([*([("Content-Type", mime)] if mime is not None else []), *headers])
    answer = FetchResult(status=status, headers=sent, body=body)
    return discover(URL, answer, LinkSettings(**settings), agent=agent, declared=declared)


def found(*args: Any, **options: Any) -> list[tuple[str, str]]:
    return [(url.removeprefix("https://example.org"), hop) for url, hop in page(*args, **options).links]


def test_a_redirect_leads_to_its_location_alone() -> None:
    link = ("Link", "<next>; rel=next")
    assert found(b"<a href=x>", "text/html", ("Location", "../to#top"), link, status=302) == [("/to", "R")]


def test_a_redirect_without_a_usable_location_leads_where_its_header_says() -> None:
    headers = (("Location", "javascript:0"), ("Link", "<next>"))
    assert found(b"<a href=x>", "text/html", *headers, status=302) == [("/dir/next", "L")]


def test_a_location_counts_in_redirects_only() -> None:
    assert found(b"<a href=x>", "text/html", ("Location", "/to")) == [("/dir/x", "L")]


@pytest.mark.parametrize("status", [-5, 0, 199, 304, 404, 500])
def test_bodies_of_other_answers_are_not_read(status: int) -> None:
    assert found(b"<a href=x>", status=status) == []


def test_headers_come_first_and_are_relative_to_the_page_itself() -> None:
    headers = (("Link", "<a>; rel=next, <b>; rel=stylesheet"), ("Refresh", "0; url=c"))
    assert found(b"<base href=/other/><a href=a>", "text/html", *headers) == [
        ("/dir/a", "L"),
        ("/dir/b", "E"),
        ("/dir/c", "R"),
        ("/other/a", "L"),
    ]


@pytest.mark.parametrize(
    ("body", "mime"),
    [
        (b"<a href=/1>", "text/html; charset=utf-8"),
        (b"<a href=/1>", "TEXT/HTML"),
        (b"<a href=/1>", "application/xhtml+xml"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html><a href=/1>", "application/xhtml+xml"),
        (b"<?xml version='1.0'?><html><a href=/1></html>", "text/html"),
        (b"<html><a href=/1></html>", "application/xml"),
        (b"\xef\xbb\xbf \n<!DOCTYPE html><title>t</title><a href=/1>", None),
        (b"<!-- c --><div><a href=/1>", ""),
        (b"<a href=/1>", "text/html, text/html"),
        (b"<!DOCTYPE html><html><a href=/1>", "text/html:charset=utf-8"),
        (SITEMAP, "application/xml"),
        (SITEMAP, "text/xml; charset=utf-8"),
        (SITEMAP, "text/html"),
        (SITEMAP, "text/plain"),
        (SITEMAP, None),
        (gzip.compress(SITEMAP, mtime=0), "application/gzip"),
        (gzip.compress(SITEMAP, mtime=0), "application/x-gzip"),
        (gzip.compress(SITEMAP, mtime=0), "application/octet-stream"),
        (gzip.compress(SITEMAP, mtime=0), "text/xml"),
        (gzip.compress(SITEMAP[:20], mtime=0) + gzip.compress(SITEMAP[20:], mtime=0), "application/gzip"),
        (SITEMAP.decode().encode("utf-16"), "application/xml"),
        (b"\xef\xbb\xbf\n" + SITEMAP, "application/xml"),
        (b"https://example.org/1\n", "text/plain"),
        (gzip.compress(b"https://example.org/1", mtime=0), "application/gzip"),
        (RSS, "application/rss+xml"),
        (RSS, "text/xml"),
        (RSS.replace(b"rss", b"rdf:RDF"), "application/rdf+xml"),
        (ATOM, "application/atom+xml"),
        (b"<?xml version='1.0'?>" + ATOM, "text/html"),
    ],
)
def test_what_is_read(body: bytes, mime: str | None) -> None:
    assert found(body, mime) == ONE


@pytest.mark.parametrize(
    ("body", "mime"),
    [
        (b"<a href=/1>", "text/plain"),
        (b"<html><a href=/1></html>", "image/png"),
        (b"<svg><a href='/1'/></svg>", "image/svg+xml"),
        (SITEMAP, "application/json"),
        (b"Visit https://example.org/1 today", "text/plain"),
        (b"https://example.org/1 is a page", "text/plain"),
        (gzip.compress(b"\x7fELF" * 1000, mtime=0), "application/gzip"),
        (b"\x1f\x8b", "application/gzip"),
        (b"\x1f\x8b" + b"x" * 100, "application/octet-stream"),
        (b"", "text/html"),
        (b"", None),
    ],
)
def test_what_is_not_read(body: bytes, mime: str | None) -> None:
    assert found(body, mime) == []


TEXT_SITEMAP = b"# our pages\r\nhttps://example.org/1\r\n"


@pytest.mark.parametrize("mime", ["text/html", "image/png", "application/json", "text/css", "application/gzip", None])
@pytest.mark.parametrize(
    "body",
    [
        SITEMAP,
        SITEMAP.removeprefix(b"<?xml version='1.0'?>"),
        b"\xef\xbb\xbf" + SITEMAP,
        SITEMAP.decode().encode("utf-16"),
        RSS,
        ATOM,
        TEXT_SITEMAP,
        TEXT_SITEMAP.replace(b"\r\n", b"\r"),
        b"\xef\xbb\xbfhttps://example.org/1",
        "https://example.org/1\n".encode("utf-16"),
    ],
)
def test_what_is_declared_to_be_a_sitemap_is_read_by_its_content(body: bytes, mime: str | None) -> None:
    for sent in (body, gzip.compress(body, mtime=0)):
        assert found(sent, mime, declared=True, feeds=False) == ONE
    assert found(SITEMAP, mime, declared=True, sitemaps=False) == []


def test_what_is_declared_to_be_a_sitemap_and_is_a_page_is_read_as_one() -> None:
    assert found(b"<!doctype html><title>t</title><a href=/1>", "text/html", declared=True) == ONE
    assert found(b"\x89PNG\r\n\x1a\n", "image/png", declared=True) == []


@pytest.mark.parametrize(
    "body", [SITEMAP, gzip.compress(SITEMAP, mtime=0), SITEMAP.replace(b"urlset", b"sitemapindex")]
)
def test_sitemaps_are_read_by_setting(body: bytes) -> None:
    assert found(body, None, sitemaps=False) == []


def test_text_sitemaps_are_read_by_setting() -> None:
    assert found(b"https://example.org/1", "text/plain", sitemaps=False) == []


@pytest.mark.parametrize("body", [RSS, ATOM])
def test_feeds_are_read_by_setting(body: bytes) -> None:
    assert found(body, "text/xml", feeds=False) == []


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"<meta name=robots content=noindex>", [], (True, False)),
        (b"<meta name=ROBOTS content='NoIndex, NoFollow'>", [], (True, True)),
        (b"<meta name=robots content=none>", [], (True, True)),
        (b"<meta name=robots content=index,follow>", [], (False, False)),
        (b"<meta name=thatbot content=nofollow>", [], (False, True)),
        (b"<meta name=otherbot content=nofollow>", [], (False, False)),
        (b"<!-- <meta name=robots content=none> -->", [], (False, False)),
        (b"<body><div><a href=y>y</a><meta name=robots content=none>", [], (False, False)),
        (b"", ["noindex"], (True, False)),
        (b"", ["noarchive", "nofollow"], (False, True)),
        (b"", ["thatbot: none"], (True, True)),
        (b"", ["otherbot: none"], (False, False)),
        (b"<meta name=robots content=nofollow>", ["noindex"], (True, True)),
    ],
)
def test_robots_tags(body: bytes, headers: list[str], expected: tuple[bool, bool]) -> None:
    lines = [("X-Robots-Tag", value) for value in headers]
    got = page(body, "text/html", *lines, agent="ThatBot")
    assert (got.noindex, got.nofollow) == expected


def test_nofollow_leaves_out_links_but_neither_embeds_nor_redirects() -> None:
    html = b"<meta name=robots content=nofollow><a href=a>a</a><img src=i><meta http-equiv=refresh content='0;url=r'>"
    assert found(html) == [("/dir/i", "E"), ("/dir/r", "R")]
    assert found(html, nofollow="follow") == [("/dir/a", "L"), ("/dir/i", "E"), ("/dir/r", "R")]


def test_marked_links_are_followed_or_skipped_by_setting() -> None:
    html = b"<a href=a rel='x NOFOLLOW'>a</a><a href=b rel=ugc>b</a><area href=c rel=sponsored><a href=d rel=next>d</a>"
    link = ("Link", "<e>; rel='nofollow', <f>; rel=\"next nofollow\"")
    assert [url for url, _ in found(html, "text/html", rel_nofollow="skip")] == ["/dir/d"]
    assert len(found(html, "text/html")) == 4
    assert [url for url, _ in found(b"", "text/html", link, rel_nofollow="skip")] == ["/dir/e"]


def test_max_per_page_counts_different_links() -> None:
    html = b"<a href=a>a</a><a href=a#2>a</a><a href=b>b</a><a href=c>c</a>"
    assert found(html, max_per_page=2) == [("/dir/a", "L"), ("/dir/b", "L")]


def test_sitemaps_that_a_robots_txt_names() -> None:
    body = b"""\xef\xbb\xbfUser-agent: *\r\nSitemap: https://example.org/s.xml\r\nDisallow: /x
  SITEMAP:/relative.xml # here\nsitemap: https://example.org/s.xml\nSitemap: ftp://x/\nSitemap:\nNo-Sitemap: /n\n"""
    assert list(sitemaps(body, "https://example.org/robots.txt")) == [
        "https://example.org/s.xml",
        "https://example.org/relative.xml",
    ]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_sitemaps_are_found_however_lines_end_and_in_what_the_rules_are_read_in(codec: str, end: str) -> None:
    body = end.join(("Sitemap: /a.xml", "User-agent: *", "Disallow: /x", "Sitemap: /b.xml", "")).encode(codec)
    assert [url[-6:] for url in sitemaps(body, "https://example.org/robots.txt")] == ["/a.xml", "/b.xml"]


def test_resolve_is_at_hand() -> None:
    import can_ada

    assert resolve(can_ada.parse(URL), "x#y") == "https://example.org/dir/x"
    assert resolve(can_ada.parse(URL), None) is None


def test_the_icon_of_the_host_of_a_page_is_embedded_by_setting() -> None:
    icon = ("/favicon.ico", "E")
    assert found(b"<a href=a>a</a>", favicon=True) == [icon, ("/dir/a", "L")]
    for other in (("x", "text/plain"), ("<a href=a>a</a>", "text/html", ("Location", "../to"))):
        body, mime, *headers = other
        got = found(body.encode(), mime, *headers, status=302 if headers else 200, favicon=True)
        assert icon not in got
