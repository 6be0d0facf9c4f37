"""Tags where a page may be read in more than one way: SVG and MathML, framesets, scripts in scripts.

lexbor, a browser's parser, says what a tag is: it builds the tree that tells. No link of its tree may be missing.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from budgetfrontier.crawler.links.html import read
from budgetfrontier.crawler.links.tag_patterns import tag_pattern
from budgetfrontier.crawler.links.tags import _PATTERNS, _PLAIN, tags

_ATTRIBUTES = {"a": "href", "area": "href", "link": "href", "base": "href"} | dict.fromkeys(
    ("img", "input", "script", "iframe", "frame", "embed"), "src"
)


def in_tree(html: str) -> set[tuple[str, str]]:
    nodes = (node for node in LexborHTMLParser(html).css("*") if node.tag in _ATTRIBUTES)
    found = ((str(node.tag), node.attributes.get(_ATTRIBUTES[str(node.tag)])) for node in nodes)
    return {(name, value) for name, value in found if value}


def in_tags(html: str, *, xhtml: bool = False) -> set[tuple[str, str]]:
    found = ((name, tag.get(_ATTRIBUTES[name])) for name, tag in tags(html, xhtml=xhtml) if name in _ATTRIBUTES)
    return {(name, value) for name, value in found if value}


LOST = [
    # In SVG and MathML, a title or a style is an element like any other, and may be closed by "/>".
    "<svg><title/><a href=x>",
    "<svg><style/></svg><a href=x>",
    "<svg><style><a href=x></style></svg>",
    "<svg><script/><a href=x>",
    "<svg><textarea/><a href=x>",
    "<math><title/><a href=x>",
    "<svg><title><a href=x>",
    "<svg><title><p><a href=x>",
    "<svg><title>t</svg><title></title><a href=x>",
    "<svg><desc><svg><style/><a href=x>",
    "<math><mi><svg><title/><a href=x>",
    "<math><annotation-xml><title/><a href=x>",
    "<svg><style><b title='</style>' ><a href=x>",
    # A CDATA section is one there, and elsewhere it ends with the first ">".
    "<svg><![CDATA[><a href=n><!--]]><a href=x>",
    "<svg><desc><p><![CDATA[><a href=x>",
    "<![CDATA[<!--><a href=x>",
    # Back in HTML: an integration point, or a tag that ends it.
    "<svg><foreignObject><title><!--</title><a href=x>",
    "<svg><g><p><title><!--</title><a href=x>",
    "<math><mi><style><!--</style><a href=x>",
    "<svg></svg><title><!--</title><a href=x>",
    "<svg/><title><!--</title><a href=x>",
    "<svg><foreignObject><div><br></div></foreignObject></svg><title><!--</title><a href=x>",
    "<table><td><svg><path></td><title><!--</title><a href=x>",
    # A frameset leaves out elements that it does not know, and what these hold counts.
    "<frameset><style><frame src=x>",
    "<frameset><title><frame src=x>",
    # What is text in these ends with their end tags, whatever it holds.
    "<iframe><!--</iframe><a href=x>",
    "<noembed><a title='</noembed><a href=x>",
    "<noframes><!--</noframes><a href=x>",
    "<textarea><!--</textarea title='<!--'><a href=x>",
    # A script within a comment within a script.
    "<script><!--<script></script><script></script>--><!--</script><a href=x>",
    "<script><!--<script></script>--></script><a href=x>",
    "<script><!--></script><a href=x>",
    "<script><!--<script><!--></script><a href=x>",
    "<script><!--<script></script></script><a href=x>",
    # What is no element and no comment hides nothing.
    "<!x <!--><a href=x>",
    "<? <script>?><a href=x>",
    "<!doctype html '<!--><a href=x>",
    "</ <script>><a href=x>",
    "</p title='<script>'><a href=x>",
    "</p <!--><a href=x>",
    "<p<script><a href=x>",
    "</p<script><a href=x>",
    "<x-y title='<!--'><a href=x>",
    "<b\ttitle='<!--'><a href=x>",
    "<b/title='<!--'><a href=x>",
    # Quotes that open no value.
    '<b =">text<a href=x>',
    '<a =">text<a href=x>',
    '<b a= =">text<a href=x>',
    '<b a=y="z>text<a href=x>',
    "<img alt=it='s><a href=x>",
]
"""Pages whose one link is x."""


@pytest.mark.parametrize("html", LOST)
def test_no_link_of_the_tree_is_lost(html: str) -> None:
    assert "x" in {value for _, value in in_tree(html)}
    assert in_tree(html) <= in_tags(html)


@pytest.mark.parametrize(
    "html",
    [
        "<svg></svg><script>'<a href=x>'</script>",
        "<svg><title>t</title><path d='<'/></svg><script>'<a href=x>'</script>",
        "<svg><title>t</svg><script>'<a href=x>'</script>",
        "<svg><style>a>b{}</style><foreignObject><p><img></p></foreignObject></svg><textarea><a href=x></textarea>",
        "<svg><div></div><script>'<a href=x>'</script>",
        "<math><mi>x</mi></math><title><a href=x></title>",
        "<svg><![CDATA[<a href=x>]]></svg>",
        "<svg><desc><![CDATA[<a href=x>]]></desc></svg>",
    ],
)
def test_what_is_surely_text_holds_no_links(html: str) -> None:
    assert in_tree(html) == in_tags(html) == set()


def test_xhtml_closes_elements_and_has_cdata_sections() -> None:
    html = """<script src="s"/><a href="x"/><title/><a href="y"/><script><![CDATA['<a href="n">']]></script>
    <p><![CDATA[<a href="n">]]></p><style>/*<![CDATA[*/ <!-- ]]></style><a href="z"/>"""
    assert in_tags(html, xhtml=True) == {("script", "s"), ("a", "x"), ("a", "y"), ("a", "z")}
    assert in_tags(html) == {("script", "s"), ("a", "z")}


def test_the_text_of_a_style_is_told_once_for_each_end() -> None:
    html = "<svg>" + "<style>a{b:url(c)}" * 100 + "</style>"
    assert sum(len(tag.get("#text", "")) for _, tag in tags(html)) < len(html)


def test_a_link_of_svg() -> None:
    html = "<svg><a xlink:href='a'/><a xlink:href=\"b\"/><a class='x' href='c' xlink:href='n'/></svg>"
    assert list(read(html, "https://h/").references) == [("a", "L"), ("b", "L"), ("c", "L")]


@pytest.mark.parametrize(
    ("html", "base"),
    [
        ("<base href=/a/><base href=/b/>", "/a/"),
        ("<p>text<a href=l></a><p><base href=/a/>", "/a/"),
        ("<a href=l><BASE HREF=/a/>", "/a/"),
        ("<base target=_top><base href=/a/>", "/a/"),
        ("<base href><base href=/b/>", "/"),
        ('<base href=""><base href=/b/>', "/"),
        ("<base href=javascript:0><base href=/b/>", "/"),
        ("<!-- <base href=/n/> --><base href=/a/>", "/a/"),
        ("<script>'<base href=/n/>'</script><base href=/a/>", "/a/"),
        ("<noframes><base href=/n/></noframes><base href=/a/>", "/a/"),
        ("<template><template></template><base href=/n/></template><a href=l></a><base href=/a/>", "/a/"),
        ("<svg><base href=/n/></svg><base href=/a/>", "/a/"),
        ("<svg><foreignObject><base href=/a/></foreignObject></svg>", "/a/"),
        ("<a href=l><b title='<base href=/n/>'>", "/"),
        ("<base href=/a&amp;b/>", "/a&b/"),
    ],
)
def test_the_base_is_the_first_that_is_one(html: str, base: str) -> None:
    assert read(html, "https://h/").base.href == "https://h" + base


_NAMES = """svg math title desc foreignObject annotation-xml mi style script textarea xmp iframe noembed noframes
noscript template select option frameset table tr td caption p div b a span g body head html form button li br font"""
_LINKS = ("<a href=#>", "<img src=#>", "<script src=#>", "<frame src=#>", "<input src=#>", "<svg><a href=#>")
_TAILS = ("", "", "", "/", " /", " a=b/", ' x="<!--"', " y='<a href=no>'", "\tz='>'", ' ="', "<i")
_OTHER = r"""<!--|-->|--!>|<!-->|<![CDATA[|]]>|<!doctype html>|<?x |<!x |>|"|'|<|</|text|</ |<svg>|</svg>|</title>
<svg><title>|<script><!--<script>|--></script>|<font color=x>|<p<i a="|<a title='"'>|<a/=">|<svg><style>|</style>"""
_PIECES = st.one_of(
    st.sampled_from(_LINKS),
    st.sampled_from(_OTHER.replace("\n", "|").split("|")),
    st.builds("<{}{}>".format, st.sampled_from(_NAMES.split()), st.sampled_from(_TAILS)),
    st.builds("</{}>".format, st.sampled_from(_NAMES.split())),
)


_SKIPPED = "p li h1 h6 div table td title P abbr article i iframe b base body br button tr track"
_SKIPPED_TAILS = ("", "", " ", ' class="x"', ' id="a>b" class="x"', ' title="<a href=no>"', " x=y", " hidden", "\n")
_SKIPS = st.builds(
    "<{}{}{}>".format,
    st.sampled_from(_SKIPPED.split()),
    st.sampled_from(_SKIPPED_TAILS),
    st.sampled_from(("", "", "/", " /", ' x="')),
)


@given(st.lists(st.one_of(_PIECES, _SKIPS), max_size=16).map("".join))
def test_what_is_skipped_would_match_nothing(html: str) -> None:
    plain = tag_pattern(_PLAIN)
    expected = [(match.span(), match.groups()) for match in plain.finditer(html)]
    assert [(match.span(), match.groups()) for match in _PATTERNS[0].finditer(html)] == expected


@given(st.lists(_PIECES, max_size=16))
def test_every_link_of_the_tree_is_found(pieces: list[str]) -> None:
    html = "".join(piece.replace("#", str(number)) for number, piece in enumerate(pieces))
    assert {link for link in in_tree(html) if link[0] != "base"} <= in_tags(html)
