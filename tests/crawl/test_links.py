"""Link extraction: which elements, which hop, the base, the charset, and what is no link."""

from __future__ import annotations

import pytest

from budgetfrontier.crawl.links.html import extract
from budgetfrontier.crawl.links.text import decode

PAGE = "https://example.org/dir/page"


def found(html: str | bytes, *, charset: str | None = None) -> list[tuple[str, str]]:
    body = html.encode() if isinstance(html, str) else html
    return [(url.removeprefix("https://example.org"), hop) for url, hop in extract(body, PAGE, charset=charset)]


def test_elements_and_their_hops() -> None:
    html = """<link rel=stylesheet href=s.css><link rel=next href=2><link rel=preconnect href=//cdn.test>
    <script src=j.js></script><a href=a>a</a><map><area href=/b></map><img src=i.png><iframe src=f></iframe>"""
    assert found(html) == [
        ("/dir/s.css", "E"),
        ("/dir/2", "L"),
        ("/dir/j.js", "E"),
        ("/dir/a", "L"),
        ("/b", "L"),
        ("/dir/i.png", "E"),
        ("/dir/f", "E"),
    ]


def test_frames() -> None:
    assert found("<frameset><frame src=one><frame src=two></frameset>") == [("/dir/one", "E"), ("/dir/two", "E")]


def test_each_link_once_and_without_fragment() -> None:
    assert found("<a href=x#1>1</a><a href='x#2'>2</a><a href=' x '>3</a><img src=x>") == [("/dir/x", "L")]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("<base href=/other/>", "/other/x"),
        ("<base><base href=/second/>", "/second/x"),
        ("<base href=http://[bad>", "/dir/x"),
        ("<base href=javascript:0>", "/dir/x"),
        ("<base href=https://else.test/a/b>", "https://else.test/a/x"),
    ],
)
def test_base_href(base: str, expected: str) -> None:
    assert found(f"{base}<a href=x>x</a>") == [(expected, "L")]


@pytest.mark.parametrize(
    "reference",
    [
        "javascript:void(0)",
        "mailto:a@b.c",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://[::1",
        "http://a:99999/",
        "",
    ],
)
def test_what_is_no_link(reference: str) -> None:
    assert found(f'<a href="{reference}">x</a>') == []


def test_hostile_references_do_not_raise() -> None:
    html = b"<a href='\x00x'>1</a><a href='a\\b'>2</a><a href='&#xd800;'>3</a><a href='http://\xff/'>4</a><a href>5</a>"
    assert [hop for _, hop in found(html)].count("L") >= 1


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"\xe9", "iso-8859-1", "é"),
        (b"\x80", "latin1", "€"),
        ("é".encode(), None, "é"),
        (b"\xff", None, "ÿ"),
        ("é".encode()[:1], "utf-8", "\ufffd"),
        (b"<meta charset='koi8-r'>\xc1", None, "\u0430"),
        (b'<meta http-equiv=x content="text/html; charset=windows-1251">\xe0', None, "\u0430"),
        (b"\xef\xbb\xbf\xc3\xa9", "latin1", "é"),
        (b"\xff\xfea\x00", None, "a"),
        (b"6162", "hex", "6162"),
        (b"a", "no-such-charset", "a"),
        (b"a", "idna", "a"),
        (b"a", "\x00", "a"),
    ],
)
def test_charset(body: bytes, charset: str | None, text: str) -> None:
    assert decode(body, charset=charset).endswith(text)
