"""Links of HTML pages: which elements, which hop, the base, and what is no link. lexbor says what a tag is."""

from __future__ import annotations

import can_ada
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from budgetfrontier.crawler.links.html import read, refresh
from budgetfrontier.crawler.links.tags import tags, unescaped
from budgetfrontier.crawler.links.url_resolution import resolve, unique

PAGE = "https://example.org/dir/page"


def found(html: str, *, url: str = PAGE) -> list[tuple[str, str]]:
    page = read(html, url)
    return [(url.removeprefix("https://example.org"), hop) for url, hop in unique(page.base, page.references)]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href=a>a</a><map><area href=/b></map>", [("/dir/a", "L"), ("/b", "L")]),
        ("<A HREF=a>a</A><a\nhref = 'b' >b</a><a/href=c>c</a>", [("/dir/a", "L"), ("/dir/b", "L"), ("/dir/c", "L")]),
        ('<a class="x" rel="next" href="a" id="y">a</a>', [("/dir/a", "L")]),
        ('<a href="a" href="b">a</a><a href=c href=d>c</a>', [("/dir/a", "L"), ("/dir/c", "L")]),
        ("<link rel=stylesheet href=s.css>", [("/dir/s.css", "E")]),
        ("<link rel='shortcut ICON' href=i><link rel=preload as=image href=p imagesrcset='q 1x, r 2x'>", "ipqr"),
        ("<link rel=preconnect href=//cdn.test><link rel=dns-prefetch href=//cdn.test>", []),
        (
            "<link rel=next href=n><link rel=canonical href=c><link rel=alternate href=f><link href=l>",
            [
                ("/dir/n", "L"),
                ("/dir/c", "L"),
                ("/dir/f", "L"),
                ("/dir/l", "L"),
            ],
        ),
        ("<script src=j></script><img src=i><iframe src=f></iframe><embed src=e>", "jife"),
        (
            "<frameset><frame src=f><frame src=g></frameset><noframes><a href=n>n</a></noframes>",
            [
                ("/dir/f", "E"),
                ("/dir/g", "E"),
                ("/dir/n", "L"),
            ],
        ),
        ("<object data=o></object><audio src=a></audio><video src=v poster=p><track src=t></video>", "oavpt"),
        ("<picture><source srcset='s 1x, t 2x'><img src=i srcset='j, k 100w'></picture>", "stijk"),
        ("<input type=IMAGE src=i><input type=text src=n>", "i"),
        ("<body background=b><table background=t><td background=d>", "btd"),
        ("<svg><image href=i></image><image xlink:href=x /></svg>", "ix"),
        (
            "<svg><use href='u#i'/><use xlink:href=v /><use href='#x'/><feImage href=f /><script href=s></script>",
            "uvfs",
        ),
        ("<p style='a:image-set(&quot;s&quot; 1x)'><b title=x>", "s"),
        ("<meta http-equiv=Refresh content='5; URL=\"r\"'>", [("/dir/r", "R")]),
        ("<template><a href=t>t</a></template><noscript><img src=n></noscript>", [("/dir/t", "L"), ("/dir/n", "E")]),
        ("<form action=f><button formaction=g></form><meta property=og:image content=/o.png><q cite=c>", []),
    ],
)
def test_elements_and_their_hops(html: str, expected: list[tuple[str, str]] | str) -> None:
    embeds = [(f"/dir/{name}", "E") for name in expected] if isinstance(expected, str) else expected
    assert found(html) == embeds


@pytest.mark.parametrize(
    ("srcset", "expected"),
    [
        ("a", ["a"]),
        ("a 1x, b 2x", ["a", "b"]),
        ("a 1x,b 2x", ["a", "b"]),
        ("a,b 1x", ["a,b"]),
        ("a, b", ["a", "b"]),
        (",,a,,, b,", ["a", "b"]),
        ("a (x, y) 1x, b", ["a", "b"]),
        ("a (x, y", ["a"]),
        ("/i/w=1,h=2/a 1x, /i/w=2,h=3/b 2x", ["/i/w=1,h=2/a", "/i/w=2,h=3/b"]),
        ("data:image/png;base64,AAAA 1x, b 2x", ["b"]),
        (" \n", []),
        ("," * 1000, []),
    ],
)
def test_srcset(srcset: str, expected: list[str]) -> None:
    base = can_ada.parse(PAGE)
    assert found(f"<img srcset='{srcset}'>") == [
        ((resolve(base, name) or "").removeprefix("https://example.org"), "E") for name in expected
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0;url=x", "x"),
        (" 1.5 ; URL = x ", "x"),
        ("5,x", "x"),
        ("5 x", "x"),
        ("0; url='a b' c", "a b"),
        ('0; url="x', "x"),
        ("0; x?url=y", "x?url=y"),
        ("0", None),
        ("0;", None),
        ("0; url=", None),
        ("soon; url=x", None),
        ("", None),
    ],
)
def test_refresh(content: str, expected: str | None) -> None:
    assert refresh(content) == expected


def test_each_link_once_and_without_fragment() -> None:
    assert found("<a href=x#1>1</a><a href='x#2'>2</a><a href=' x '>3</a><img src=x><a href=#y>4</a>") == [
        ("/dir/x", "L")
    ]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("<base href=/other/>", "/other/x"),
        ("<base><base href=/second/><base href=/third/>", "/second/x"),
        ("<base href=http://[bad><base href=/second/>", "/dir/x"),
        ("<base href=javascript:0>", "/dir/x"),
        ("<base href=https://else.test/a/b>", "https://else.test/a/x"),
        ("<base href='?q=/'>", "/dir/x"),
        ("<!-- <base href=/other/> -->", "/dir/x"),
        ("<link rel=next href=x><base href=/other/>", "/other/x"),
        ("<p><a href=x>x</a><base href=/other/>", "/other/x"),
    ],
)
def test_base_href(base: str, expected: str) -> None:
    assert found(f"{base}<a href=x>x</a>")[0] == (expected, "L")


@pytest.mark.parametrize(
    "reference",
    [
        "javascript:void(0)",
        "mailto:a@b.c",
        "data:text/html,x",
        "file:///etc/passwd",
        "ftp://example.org/",
        "http://[::1",
        "http://a:99999/",
        "http://",
        "//",
        "",
        "#",
        "#top",
        "x" * 8193,
        "http://" + "a/" * 5000,
    ],
)
def test_what_is_no_link(reference: str) -> None:
    assert found(f'<a href="{reference}">x</a><a href={reference}>x</a>') == []


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("a b", "/dir/a%20b"),
        ("a\tb\nc", "/dir/abc"),
        ("..\\a", "/a"),
        ("a\x00b", "/dir/a%00b"),
        ("http:/x", "http://x/"),
        ("//else.test/x", "https://else.test/x"),
        ("https://u:p@else.test:8443/x", "https://u:p@else.test:8443/x"),
        ("https://EXAMPLE.org:443/x", "/x"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
        ("http://\u0430pple.example/", "http://xn--pple-43d.example/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("?a=1&amp;b=2", "/dir/page?a=1&b=2"),
        ("?a=1&copy=2&lt=3", "/dir/page?a=1&copy=2&lt=3"),
        ("&#x2f;x&#47y", "/x/y"),
        ("caf\u00e9?\u00e9", "/dir/caf%C3%A9?%C3%A9"),
    ],
)
def test_odd_references(reference: str, expected: str) -> None:
    assert found(f'<a href="{reference}">x</a>') == [(expected, "L")]


def test_a_lone_surrogate_is_no_link() -> None:
    assert found("<a href='\ud800'>x</a><a href='?\udcff'>x</a>") == []


def test_what_stands_in_comments_scripts_and_values_is_no_tag() -> None:
    html = """<!--<a href=1>--><!--><a href=a><!-- > <a href=2> --!><a href=b><script>"<a href=3>"</script><a href=c>
    <style><a href=4></STYLE ><a href=d><textarea><a href=5></textareas></textarea><a href=e><title><a href=6></title>
    <a href=f><b title="<a href=7>" x='<script>'><a href=g><xmp><a href=8></xmp><a title="href=9" href=h>
    <!-- <a href=10>"""
    assert "".join(url[-1] for url, _ in found(html)) == "abcdefgh"


def test_a_tag_that_does_not_end_is_none() -> None:
    assert found("<a href=x>x</a><a href=y") == [("/dir/x", "L")]
    assert found("<a href=x>x</a><a href='y>") == [("/dir/x", "L")]


_PIECES = r"""<a href=|<a href="|"|'|>|<a href='x'>|<img src=x srcset='a b'>|<!--|-->|--!>|<!-->|<script>|</script>
<title>|</title >|<a/href='x'|/>| href=y|=|<A HREF=Q>|<a rel=nofollow href=z>|&amp;|&copy=|&copy;|&#65;|&#x42|&notit;
&lt|<div>|</div>|<link rel=stylesheet href=s>|<b title="<a href=no>">|<i title='>'>|text |</a>|<area/href=w>|<a href>
<a href="1" href="2">|<a title=it's href=k>|<style>|</style>|<textarea>|</TEXTAREA>|<input type=image src=i>
<a/ href = "v" >|<a href="p"rel="x">|<a x=y/href=m>|<a rel="u" rel="v" href="&amp;w" >"""
_ASKED = {"a", "area", "link", "img", "input"}


@given(st.lists(st.sampled_from(["\n", *_PIECES.replace("\n", "|").split("|")]), max_size=9).map("".join))
def test_tags_are_those_of_a_browser(html: str) -> None:
    # A tree may hold copies of an <a> that is still open.
    expected: dict[tuple[str, str], None] = {}
    for node in LexborHTMLParser(html).css("a[href], area[href], link[href], img[src], input[src]"):
        value = node.attributes["src" if node.tag in ("img", "input") else "href"]
        expected |= {(str(node.tag), value): None} if value else {}
    got = [(name, unescaped(tag.get("href") or tag.get("src") or "")) for name, tag in tags(html) if name in _ASKED]
    assert list(dict.fromkeys(each for each in got if each[1])) == list(expected)


@given(st.text("ab/.?#&%:;=+~-_@\\ é^", max_size=12), st.sampled_from([PAGE, "http://h/", "http://h/a/?x=/y/z"]))
def test_short_cuts_resolve_as_the_parser_does(reference: str, url: str) -> None:
    base = can_ada.parse(url)
    expected = resolve(base, reference.partition("#")[0])
    assert list(unique(base, [(reference, "L")])) == ([(expected, "L")] if expected else [])


_URL_PIECES = r"""http:// https:// h.test www.h-h.test xn--e1afmkfd.test h--h.test -h.test H.test 1.2 1.2.3.4 0x1.test
h.0x1 h.t1 h localhost h.test. .. . / // /a a b/ %41 ?x=/y&z=%20 ? # : :80 :443 :8080 :08080 :60999 :65536 :99999 @ u@
\ é ~ a.html ./ /./ a..b ;p +"""


@given(
    st.lists(st.sampled_from(["", " ", "\t", *_URL_PIECES.split()]), max_size=6).map("".join),
    st.sampled_from([PAGE, "http://h/", "https://h/a/?x=/y/z"]),
)
def test_short_cuts_for_absolute_urls_resolve_as_the_parser_does(reference: str, url: str) -> None:
    base = can_ada.parse(url)
    expected = resolve(base, reference.partition("#")[0])
    assert list(unique(base, [(reference, "L")])) == ([(expected, "L")] if expected else [])


@pytest.mark.parametrize("port", [1, 80, 443, 1000, 8080, 59999, 60000, 65535, 65536, 99999])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_absolute_urls_with_ports(scheme: str, port: int) -> None:
    reference = f"{scheme}://www.example-site.test:{port}/a/b.html?c=d"
    expected = resolve(can_ada.parse(PAGE), reference)
    assert list(unique(can_ada.parse(PAGE), [(reference, "L")])) == ([(expected, "L")] if expected else [])


def test_all_of_a_long_page_is_read_with_its_last_base() -> None:
    html = '<meta name="a" content="b">' * 900 + '<a href="x"></a>' * 3000 + '<a href="y"></a><base href="/other/">'
    page = read(html, PAGE)
    assert len(page.metas) == 900
    assert list(unique(page.base, page.references)) == [(f"https://example.org/other/{name}", "L") for name in "xy"]


def test_a_long_page_within_an_element_of_unknown_content() -> None:
    html = "<frameset><title>" + "".join(f"<a href={number}>" for number in range(3000)) + "</title><a href=last>"
    assert [link for link, _ in read(html, PAGE).references] == [*map(str, range(3000)), "last"]


def test_a_long_base_makes_no_url_too_long() -> None:
    base = can_ada.parse("http://h/" + "a" * 8000 + "/")
    assert list(unique(base, [("b" * 500, "L")])) == []
    assert len(list(unique(base, [("b" * 50, "L")]))) == 1
