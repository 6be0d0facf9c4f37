"""The contents of a robots.txt: whose rules apply, which URLs they allow, and that nothing in it raises."""

from __future__ import annotations

import random

import pytest

from budgetfrontier.crawler.robots_txt import Rules, group_for

CASES = [
    # Groups
    (b"User-agent: *\nDisallow: /private", "/private/a", False),
    (b"User-agent: examplebot\nDisallow:\n\nUser-agent: *\nDisallow: /", "/private/a", True),
    (b"User-agent: *\nDisallow: /\n\nUser-agent: EXAMPLEBOT\nAllow: /", "/private/a", True),
    (b"User-agent: ExampleBot/2.0\nDisallow: /", "/a", False),
    (b"User-agent: bot\nDisallow: /", "/a", True),  # "bot" stands in the comment of the user agent only
    (b"User-agent: example\nDisallow: /", "/a", True),  # half of the token
    (b"User-agent: examplebot-news\nDisallow: /", "/a", True),
    (b"User-agent: a\nUser-agent: examplebot\nUser-agent: b\nDisallow: /", "/a", False),
    (
        b"User-agent: examplebot\nDisallow: /1\nUser-agent: b\nDisallow: /2\nUser-agent: examplebot\nDisallow: /3",
        "/3",
        False,
    ),
    (
        b"User-agent: examplebot\nDisallow: /1\nUser-agent: b\nDisallow: /2\nUser-agent: examplebot\nDisallow: /3",
        "/1",
        False,
    ),
    (
        b"User-agent: examplebot\nDisallow: /1\nUser-agent: b\nDisallow: /2\nUser-agent: examplebot\nDisallow: /3",
        "/2",
        True,
    ),
    (b"User-agent: examplebot\nSitemap: /s\nUser-agent: b\nDisallow: /", "/a", False),  # other lines end no group
    (b"User-agent: examplebot\nCrawl-delay: 1\nUser-agent: b\nDisallow: /", "/a", False),
    (b"User-agent: examplebot\nDisallow:\nUser-agent: b\nDisallow: /", "/a", True),  # an empty rule does
    (b"Disallow: /\nUser-agent: *\nDisallow: /b", "/a", True),  # in no group
    (b"User-agent:\nDisallow: /", "/a", True),
    (b"User-agent: *\nDisallow: /robots.txt\nDisallow: /", "/robots.txt", True),
    # Lines
    (b"\xef\xbb\xbfUser-agent: *\nDisallow: /", "/a", False),
    (b"User-agent: *\r\nDisallow: /a\r\nAllow: /a/b\r\n", "/a", False),
    (b"User-agent: *\rDisallow: /a\rAllow: /a/b\r", "/a/b", True),
    (b"  USER-AGENT :*  # all\n\tdisallow\t:\t/a # not this\n", "/a", False),
    (b"User-agent *\nDisallow /a", "/a", False),
    (b"useragent: *\ndissallow: /a", "/a", False),
    (b"User agent: *\ndissalow: /a", "/a", False),
    (b"User-agent *\nDisallow /a # all", "/a", False),
    (b"User-agent: examplebot\nDisallow: /a\nUser-agent must match exactly: x\nDisallow: /b", "/b", False),
    (b"User-agent: *\nDisallow everything that is private: /", "/a", True),
    (b"User-agent: *<BR>\nDisallow: /a<br />\nAllow: <BR>\n", "/a", False),
    (b"User-agent: *<BR>\nDisallow: /<BR>\nAllow: /a <!-- -->", "/a", True),
    (b"User-agent: *\n\x00\nDisallow: /a\n", "/a", False),
    (b"User-agent: *\nDisallow: /a\x00b\n", "/a", True),
    (b"User-agent: *\nDisallow: /a\x0bAllow: /a\n", "/a", True),  # one line, whatever str.splitlines says
    ("User-agent: *\nDisallow: /\u2028Allow: /".encode(), "/a", True),
    ("User-agent: *\nDisallow: /a".encode("utf-16"), "/a", False),
    (b"<!DOCTYPE html><html><body>\n<p>Disallow: /</p>\nUser-agent: everybody</body>", "/a", True),
    (b"\xff\xfe\x00 nonsense", "/a", True),
    (b"", "/a", True),
    # Rules: the examples of RFC 9309, sections 2.2.2 and 5.2, and of Google's documentation
    (b"User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
    (b"User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/c", False),
    (b"User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
    (b"User-agent: *\nAllow: /p\nDisallow: /", "/page", True),
    (b"User-agent: *\nAllow: /page\nDisallow: /*.htm", "/page.htm", False),
    (b"User-agent: *\nAllow: /$\nDisallow: /", "/", True),
    (b"User-agent: *\nAllow: /$\nDisallow: /", "/page.htm", False),
    (b"User-agent: ExampleBot\nDisallow: /*/a$\n", "/private/a", False),
    (b"User-agent: ExampleBot\nDisallow: /*/a$\n", "/private/a/b", True),
    (b"User-agent: *\nDisallow: /*.php", "/x/index.php?a=b", False),
    (b"User-agent: *\nDisallow: /*?*b=", "/x?a=1&b=2", False),
    (b"User-agent: *\nDisallow: /fish*", "/fish/salmon.html", False),
    (b"User-agent: *\nDisallow: /fish", "/Fish.asp", True),
    (b"User-agent: *\nDisallow: private", "/private", True),
    # Octets
    ("User-agent: *\nDisallow: /é".encode(), "/%C3%A9/a", False),
    (b"User-agent: *\nDisallow: /%c3%a9", "/%C3%A9/a", False),
    (b"User-agent: *\nDisallow: /caf\xe9", "/caf%E9", False),  # Latin-1, as the link to it
    (b"User-agent: *\nDisallow: /%61b", "/ab", False),
    (b"User-agent: *\nDisallow: /a b", "/a%20b", False),
    (b"User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
    (b"User-agent: *\nDisallow: /a%2Ab", "/a*b", False),
    (b"User-agent: *\nDisallow: /a%2Ab", "/axb", True),
    (b"User-agent: *\nDisallow: /a%24", "/a$b", False),
    # A dollar is an anchor at the end of a rule only, and stands for itself nowhere else.
    (b"User-agent: *\nDisallow: /a$", "/a", False),
    (b"User-agent: *\nDisallow: /a$", "/a$b", True),
    (b"User-agent: *\nDisallow: /a$", "/a%24b", True),
    (b"User-agent: *\nDisallow: /a$", "/a$", True),
    (b"User-agent: *\nDisallow: /a$$", "/a$", False),
    (b"User-agent: *\nDisallow: /a$$", "/a", True),
    (b"User-agent: *\nDisallow: /a$b", "/a$bc", False),
    (b"User-agent: *\nDisallow: /*$x", "/a$x", False),
    (b"User-agent: *\nDisallow: /a\nAllow: /a$", "/a$b", False),
    (b"User-agent: *\nDisallow: //a", "//a", False),
]


@pytest.mark.parametrize(("body", "path", "allowed"), CASES)
def test_rules(body: bytes, path: str, allowed: bool) -> None:
    assert Rules(group_for("examplebot", body)).allows(f"http://example.org{path}") is allowed


_ONE_EACH = b"User-agent: a\nCrawl-delay: 1\n\nUser-agent: b\nCrawl-delay: 2\n\nUser-agent: *\nDisallow: /login"
_MERGED = (
    b"User-agent: a\nCrawl-delay: 10\nUser-agent: b\nDisallow: /private/\n\nUser-agent: *\nAllow: /\n\n"
    b"User-agent: b\nDisallow: /login/\n\nUser-agent: *\nCrawl-delay: 30\n"
)


@pytest.mark.parametrize(
    ("agent", "body", "delay"),
    [
        # crawler-commons: testCrawlDelay, testSelectCrawlDelayGroup, testCrawlDelayGroupMerging, testHeritrixCases
        ("a", b"User-agent: a\nCrawl-delay: 10\nUser-agent: b\nCrawl-delay: 20\nUser-agent: *\nDisallow:/c", 10.0),
        ("a", b"User-agent: b\nCrawl-delay: 20\nUser-agent: *\nDisallow:/c", None),
        ("a", _ONE_EACH, 1.0),
        ("b", _ONE_EACH, 2.0),
        ("other", _ONE_EACH, None),
        ("a", _MERGED, 10.0),
        ("b", _MERGED, None),
        ("other", _MERGED, 30.0),
        ("a", b"User-agent: a\nDisallow: /\nCrawl-Delay: 20\nAllow: /images/", 20.0),
        # Another agent's delay never applies, whether it comes before or after one's own.
        ("a", b"User-agent: a\nCrawl-delay: 0\n\nUser-agent: *\nCrawl-delay: 60", 0.0),
        ("a", b"User-agent: *\nCrawl-delay: 10\n\nUser-agent: b\nCrawl-delay: 1\n\nUser-agent: c\nDisallow: /", 10.0),
        ("a", b"User-agent: b\nUser-agent: a\nCrawl-delay: 5\nUser-agent: c\nCrawl-delay: 6", 5.0),
        ("a", b"User-agent: a\nCrawl-delay: x\nUser-agent: b\nCrawl-delay: 6", None),
        # Two of one's own: the shortest.
        ("a", b"User-agent: a\nCrawl-delay: 10\nDisallow:\nUser-agent: a\nCrawl-delay: 20", 10.0),
        # Values
        ("a", b"User-agent: a<BR>\nCrawl-Delay: 10<BR>\n", 10.0),
        ("a", b"User-agent: a\nCrawl-Delay 2.5 # seconds\n", 2.5),
        ("a", b"User-agent: a\nCrawl-delay is ignored: 5\n", None),
        ("a", b"User-agent: a\nCrawl-delay: -1\n", None),
        ("a", b"User-agent: a\nCrawl-delay: inf\n", None),
    ],
)
def test_crawl_delay(agent: str, body: bytes, delay: float | None) -> None:
    assert group_for(agent, body).delay == delay


def test_nothing_that_is_fetched_raises() -> None:
    chance = random.Random(9309)
    words = [
        b"User-agent:",
        b"*",
        b"examplebot",
        b"\n",
        b"\r",
        b"Disallow:",
        b"Allow:",
        b"/",
        b"$",
        b"%",
        b"Crawl-delay:",
    ]
    words += [b"\x00", b"\xff", b" ", b"#", b"/%2", b"1e999", b"\xef\xbb\xbf", "\u2028".encode(), b"http://[", b"?"]
    for _ in range(2000):
        body = b"".join(chance.choices(words, k=chance.randint(1, 40)))
        rules = Rules(group_for("examplebot", body))
        rules.allows("http://example.org/a%zz/[" + "?" * chance.randint(0, 2))
