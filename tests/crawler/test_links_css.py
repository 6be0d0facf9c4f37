"""What style sheets, style elements and style attributes embed."""

from __future__ import annotations

import pytest

from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.links import discover
from budgetfrontier.crawler.links.css import references
from budgetfrontier.settings.schema import LinkSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a{b:url(c)} d{e:URL( 'f' ) , url(\"g h\")}", ["c", "f", "g h"]),
        ("@import 'a'; @IMPORT\n\"b\" screen; @import url(c);", ["a", "b", "c"]),
        ("/* url(no) */ a /**/ url(b) /*/ url(no) */*{c:url(d)} /* url(no)", ["b", "d"]),
        ("content: 'url(no)' \"@import 'no'\" url(a)", ["a"]),
        ("content: 'open\nurl(a)", ["a"]),
        (
            r"url(a\28 b\)c) url('\'d\e9 ') url(e\
f)",
            ["a(b)c", "'d\u00e9", "ef"],
        ),
        ("url(a) url() url( b ) url('c", ["a", "", "b", "c"]),
        (r"url(\0) url(\d800) url(\ffffff)", ["\ufffd", "\ufffd", "\ufffd"]),
        ("", []),
        ("a{b:image-set('c' 1x, \"d\" 2x)} e{f:url(g)}", ["c", "d", "g"]),
        ("a{b:-webkit-IMAGE-SET(url(c) 1x, url('d') type('image/png') 2x,'e' type(\"image/avif\"))}", ["c", "d", "e"]),
        ("a{b:image-set('c' 1x; d: 'no'} e{f:url(g)}", ["c", "g"]),
        ("a{b:image-set(linear-gradient(#fff, #000) 1x, 'c' 2x)}", ["c"]),
        ("content: 'image-set(\"no\")' url(a)", ["a"]),
    ],
)
def test_references(text: str, expected: list[str]) -> None:
    assert [reference for reference, _ in references(text)] == expected


def found(body: str, mime: str = "text/html") -> list[tuple[str, str]]:
    answer = FetchResult(status=200, headers={"Content-Type": mime}, body=body.encode())
    return list(discover("http://h/dir/page", answer, LinkSettings()).links)


def test_a_style_sheet_is_relative_to_itself() -> None:
    css = "@import '../x'; a{b:url(data:image/png;base64,AAAA)} c{d:url(y#z)}"
    assert found(css, "text/css; charset=utf-8") == [("http://h/x", "E"), ("http://h/dir/y", "E")]


def test_styles_of_a_page_are_relative_to_its_base_and_in_order() -> None:
    html = """<base href=/b/><style media=x>@import "1"; a{b:url(2)}</style><p style="c:url('3')">
    <a href=4 style="d:url(&quot;5&quot;)">x</a><img src=6 STYLE=e:url(7)><!-- <p style="f:url(no)"> -->
    <p title="url(no)"><script>"<p style='url(no)'>"</script><a href=8>y</a>"""
    names = [(url.removeprefix("http://h/b/"), hop) for url, hop in found(html)]
    assert names == [(str(number), "L" if number in (4, 8) else "E") for number in range(1, 9)]


def test_an_import_alone_counts() -> None:
    assert found("<style>@import 'x'</style><a href=y>y</a>") == [("http://h/dir/x", "E"), ("http://h/dir/y", "L")]
