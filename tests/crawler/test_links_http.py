"""Links in header fields (RFC 8288)."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from budgetfrontier.crawler.links.http import references


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('<a>; rel="next"', [("a", "L")]),
        ("< a >;REL=prev , <b>", [("a", "L"), ("b", "L")]),
        ("<c>; rel=canonical, <d>; rel=alternate; hreflang=de", [("c", "L"), ("d", "L")]),
        ("<p>; rel=preload; as=style, <s>;rel=stylesheet,<i>; rel='x' ;rel=icon", [("p", "E"), ("s", "E"), ("i", "L")]),
        ('<i>; rel="shortcut icon"', [("i", "E")]),
        ("<h>; rel=preconnect, <n>; rel=dns-prefetch", []),
        ('<a,b;c>; title="x, <no>; rel=icon; \\" y"; rel=icon', [("a,b;c", "E")]),
        ('<a>; title="unclosed, <no>', [("a", "L")]),
        ("<a>; rel", [("a", "L")]),
        ('<a>; rel = ""', [("a", "L")]),
        ("no link; rel=next", []),
        ("<unclosed; rel=next", []),
        ("<" * 1000 + "a>", [("a", "L")]),
        ("", []),
    ],
)
def test_link_header(value: str, expected: list[tuple[str, str]]) -> None:
    assert list(references({"Link": value})) == expected


def test_every_line_counts() -> None:
    headers = CIMultiDict([("link", "<a>"), ("Refresh", "0;url=c"), ("LINK", "<b>")])
    assert list(references(headers)) == [("a", "L"), ("b", "L"), ("c", "R")]
