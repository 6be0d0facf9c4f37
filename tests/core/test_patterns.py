"""Operators' regular expressions: as Python reads them, and in bounded time whatever the text says."""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest import mock

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.core import patterns as module
from budgetfrontier.core import uris
from budgetfrontier.core.patterns import Pattern, longest_bounded, required_text
from budgetfrontier.settings import plugins
from budgetfrontier.settings.matching import glob, parse_match
from budgetfrontier.settings.scope_rules import parse_rule
from tests.support import PATIENCE, logged, make_settings

FOREVER = "(?:[a-z]+/?)+$"  # for ages, and then once more for each letter
PAGE = "https://a.test/" + "a" * 300 + "!"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.001)


def never(*_: object) -> None:
    raise AssertionError("re would take years for this")


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("[?&]sid=", uris.MAX_LENGTH),
        (r"\.(zip|exe|gz|pdf|jpe?g)$", uris.MAX_LENGTH),
        (r"(?i)/calendar/\d{4}/\d{2}", uris.MAX_LENGTH),
        ("^https?://[^/]+/", uris.MAX_LENGTH),
        (r".*\.pdf$", 1000),
        (r"^.*?(/.+?/).*?\1.*$", 15),
        (FOREVER, 0),
        ("(a|a)" * 40, 0),
        ("a?" * 40 + "a" * 40, 0),
        ("(?:.{9}){9}", 0),
        ("(?x) # [\n (a+)+$ # ]", 0),
        ("(?#[)(a+)+$(?#])", 0),
    ],
)
def test_how_long_a_text_may_be_for_re(pattern: str, most: int) -> None:
    assert longest_bounded(pattern) == most


@pytest.mark.parametrize(
    ("pattern", "required"),
    [
        ("/section[0-9]/", "/section"),
        (r"-\d*77\.html$", "77.html"),
        ("[?&]sid=", "sid="),
        ("ab*c+de", "de"),
        ("ab{2}cd{0,}", "a"),
        (r"\b\?id=x", "?id=x"),
        (r"\x41bc", ""),
        ("(?i)page", ""),
        ("page|path", ""),
        ("", ""),
    ],
)
def test_which_text_every_match_contains(pattern: str, required: str) -> None:
    assert required_text(pattern) == required


def test_a_long_text_that_every_match_contains_is_cut() -> None:
    assert required_text("a{" + "ab" * 50_000) == ""
    assert required_text("x*" + "ab" * 50_000) == "ab" * 32


@pytest.mark.parametrize(
    "pattern", [FOREVER, "(a|a|b)*$", "^" + "(a|a)" * 40 + "$", r".*.*.*.*.*=$", r"(.*)/\1/\1x.*?$"]
)
def test_what_would_take_ages_is_given_up_and_logged_once(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    found = Pattern(pattern)
    assert [bool(found.search(PAGE)) for _ in range(3)] == [False] * 3
    assert len(logged(caplog, "budgetfrontier.patterns")) == (1 if found.given_up else 0)
    assert found.given_up in (0, 3)  # `regex` sees at once that some of them cannot be found


def test_every_place_where_operators_write_one_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    assert not parse_match(f"regex:{FOREVER}").matches(PAGE)
    assert not parse_rule(f"regex:{FOREVER}").fits(CrawlUri(PAGE), None)
    cost = plugins.resolve("cost", {"additive": {"rules": [{"when": "regex", "pattern": FOREVER, "add": 5}]}})
    assert cost(CrawlUri(PAGE)) == 1
    with Frontier.open(":memory:", make_settings()) as frontier:
        frontier.schedule_many([PAGE, "https://a.test/a"])
        assert frontier.delete(pattern=FOREVER) == 1
    assert len(logged(caplog, "budgetfrontier.patterns")) == 4


def test_what_is_short_enough_is_left_to_re(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "compile", lambda *_: SimpleNamespace(search=never))
    pattern = Pattern(r"(\w+)/\1")
    assert pattern.search("https://a.test/b/b")
    assert not pattern.search("https://a.test/b/c")


def test_globs_do_not_go_back() -> None:
    host = "a" * 250
    assert not glob("*a" * 100 + "*b")(host)
    assert not parse_match("host:" + "*a" * 100 + "*b.test").matches(f"http://{host}.test/")


@given(
    st.lists(st.sampled_from(["*", "?", "a", "b", "."]), max_size=8).map("".join),
    st.text("ab.\n", max_size=9),
)
def test_globs_match_what_they_say(pattern: str, text: str) -> None:
    plain = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
    assert bool(glob(pattern)(text)) is bool(plain.fullmatch(text))


ATOMS = [
    *"abc./-{}[]()|^$*+?", "[ab]", "[^a]", "[[:alpha:]]", "[]a]", "[a[:b:]c]", r"\d", r"\w", r"\b", "{e<=1}", "{,}",
    "{2}", "{1,2}", "(a|b)", "(?:ab)?", "(?=b)", "(?!a)", "(?<=a)", "(?<!b)", "*?", "+?", "++", r"\1", r"\.", r"\{",
    "(?i:A)", "[:", "&&", "||", "~~", r"\N{DIGIT ONE}", r"\N", r"\x61", r"\141",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")  # `re` warns of sets that it may read in another way some day
@given(st.lists(st.sampled_from(ATOMS), max_size=8).map("".join), st.text("abc./-1:{}[]l&|~e<=,2N", max_size=9))
def test_both_ways_find_the_same(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern).search(text)
    except re.error:
        with pytest.raises(ValueError):
            Pattern(pattern)
        return
    assert not expected or required_text(pattern) in text
    with mock.patch.object(module, "SECONDS", PATIENCE):  # a slow machine must not give up here
        assert bool(Pattern(pattern).search(text)) is bool(expected)
        with mock.patch.object(module, "longest_bounded", return_value=0):  # nothing is left to `re`
            assert bool(Pattern(pattern).search(text)) is bool(expected)


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [(r"\d{4}", ""), (r"[ab]{2}/x", "/x"), (".{,}", ""), (r"/\d{4}/archive", "/archive"), ("a{2}b", "b")],
)
def test_how_often_is_no_text_that_a_pattern_needs(pattern: str, needed: str) -> None:
    assert required_text(pattern) == needed
