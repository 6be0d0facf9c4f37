"""The policy `rules`: Heritrix's canonicalization rules, in the order of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Frontier, PolicyError, Settings, SettingsError
from budgetfrontier.core import uris
from budgetfrontier.settings import plugins
from budgetfrontier.settings.policies.canonicalization_rules import DEFAULT, HERITRIX, HeritrixRules
from tests.settings.files import Files
from tests.support import make_settings

ID = "0123456789abcdefghijklmnopqrstuv"  # 32 characters
PAGE = "http://www.example.org/index.html"
ALL = ["lowercase", "strip-userinfo", "strip-www", "strip-www-n", "strip-session-ids", "strip-session-cfids"]
ALL += ["fix-query", "strip-extra-slashes"]


def applied(url: str, *rules: Any) -> str:
    return HeritrixRules(rules=rules)(url)


@pytest.mark.parametrize(
    ("rule", "url", "form"),
    [
        ("lowercase", "http://www.Example.org/Index.HTML?Q=A", "http://www.example.org/index.html?q=a"),
        ("strip-userinfo", "http://a:b@WWW.Example.org/x", "http://WWW.Example.org/x"),
        ("strip-userinfo", "https://a:b@@@c@example.org/x", "https://example.org/x"),
        ("strip-userinfo", "ftp://a:b@example.org/x", "ftp://example.org/x"),
        ("strip-userinfo", "http://example.org/a@b", "http://example.org/a@b"),
        ("strip-www", "http://WWW.Example.org/x", "http://Example.org/x"),
        ("strip-www", "https://www.example.org/x", "https://example.org/x"),
        ("strip-www", "http://wwww.example.org/x", "http://wwww.example.org/x"),
        ("strip-www", "http://ww.example.org/x", "http://ww.example.org/x"),
        ("strip-www", "http://www1.example.org/x", "http://www1.example.org/x"),
        ("strip-www", "http://www.example.org/", "http://www.example.org/"),
        ("strip-www", "http://www.example.org/?q", "http://example.org/?q"),
        ("strip-www-n", "http://www.example.org/x", "http://example.org/x"),
        ("strip-www-n", "http://WWW001.Example.org/x", "http://Example.org/x"),
        ("strip-www-n", "http://www3.example.org/", "http://www3.example.org/"),
        ("strip-session-ids", f"{PAGE}?jsessionid={ID}", f"{PAGE}?"),
        ("strip-session-ids", f"{PAGE}?jsessionid={ID}0", f"{PAGE}?jsessionid={ID}0"),
        ("strip-session-ids", f"{PAGE}?JSESSIONID={ID}&x=y", f"{PAGE}?x=y"),
        ("strip-session-ids", f"{PAGE}?a=b&jsessionid={ID}&x=y", f"{PAGE}?a=b&x=y"),
        ("strip-session-ids", f"{PAGE}?a=b&jsessionid={ID}", f"{PAGE}?a=b&"),
        ("strip-session-ids", f"{PAGE};jsessionid={ID}", f"{PAGE};"),
        ("strip-session-ids", f"{PAGE}?phpsessid={ID}&x=y", f"{PAGE}?x=y"),
        ("strip-session-ids", f"{PAGE}?a=b&PHPSESSID={ID}", f"{PAGE}?a=b&"),
        ("strip-session-ids", f"{PAGE}?sid={ID}&x=y", f"{PAGE}?x=y"),
        ("strip-session-ids", f"{PAGE}?sid={ID}&jsessionid={ID}", f"{PAGE}?"),
        ("strip-session-ids", f"{PAGE}?sid={ID}&sid={ID}", f"{PAGE}?sid={ID}&"),
        ("strip-session-ids", f"{PAGE}?aspsessionidABCDEFGH={'AbC' * 8}&x=y", f"{PAGE}?x=y"),
        ("strip-session-cfids", f"{PAGE}?CFID=11&CFTOKEN=48&d=22%2F08", f"{PAGE}?d=22%2F08"),
        ("strip-session-cfids", f"{PAGE}?a=b&CFID=1 &CFTOKEN=2D-3&r=4&m=f", f"{PAGE}?a=b&r=4&m=f"),
        ("strip-session-cfids", f"{PAGE}?cfid=1&cftoken=2", f"{PAGE}?"),
        ("strip-session-cfids", f"{PAGE}?cfid=1&x=y&cftoken=2", f"{PAGE}?cfid=1&x=y&cftoken=2"),
        ("strip-session-cfids", f"{PAGE}?cfid=&cftoken=2", f"{PAGE}?cfid=&cftoken=2"),
        ("strip-session-cfids", f"{PAGE}?cfid=1&cftoken=", f"{PAGE}?cfid=1&cftoken="),
        ("strip-session-cfids", f"{PAGE}?cfid=1&cftoken=2&cfid=3&cftoken=4&x", f"{PAGE}?cfid=1&cftoken=2&x"),
        ("fix-query", PAGE, PAGE),
        ("fix-query", f"{PAGE}?", PAGE),
        ("fix-query", f"{PAGE}?&", PAGE),
        ("fix-query", f"{PAGE}?&x=y", f"{PAGE}?x=y"),
        ("fix-query", f"{PAGE}?x=y", f"{PAGE}?x=y"),
        ("fix-query", f"{PAGE}?x=y&", f"{PAGE}?x=y"),
        ("fix-query", f"{PAGE}?&&", f"{PAGE}?&"),
        ("strip-extra-slashes", "http://example.org//A///B/i.html", "http://example.org/A/B/i.html"),
        ("strip-extra-slashes", "https://example.org/a?u=http://b//c", "https://example.org/a?u=http:/b/c"),
        ("strip-extra-slashes", "ftp://example.org//a", "ftp://example.org//a"),
    ],
)
def test_what_each_rule_does(rule: str, url: str, form: str) -> None:
    assert applied(url, rule) == form


def test_rules_are_applied_in_their_order_and_by_default_those_of_heritrix() -> None:
    assert applied(f"{PAGE}?jsessionid={ID}", "strip-session-ids", "fix-query") == PAGE
    assert applied(f"{PAGE}?jsessionid={ID}", "fix-query", "strip-session-ids") == f"{PAGE}?"
    assert (
        HeritrixRules()(f"http://a:b@www2.Example.org/Index?A=1&cfid=1&cftoken=2&sid={ID}")
        == "http://example.org/index?a=1"
    )
    assert HeritrixRules()("http://www.example.org/") == "http://www.example.org/"
    assert applied("http://A/?", *()) == "http://A/?"


@pytest.mark.parametrize(
    ("regex", "shape", "url", "form"),
    [
        (r"^(.+)(?:;\$sessionid\$[A-Z0-9]{32})(\?.*)+$", "$1$2", f"http://a.test/c;$sessionid${'A1' * 16}?C=9",
         "http://a.test/c?C=9"),
        (r"(https?://[^/]*/)(\d+)(x)?", "$1$20$3", "http://a.test/7", "http://a.test/70"),
        (r"(?P<site>https?://[^/]*)/.*", r"${site}/\$1", "http://a.test/7", "http://a.test/$1"),
        (r"(.*)/print", "$1/", "http://a.test/a/print", "http://a.test/a/"),
        (r"(.*)/(\d)/print", "${1}0/${2}0", "http://a.test/a/1/print", "http://a.test/a0/10"),
        (r"(.*)/print", "$1/", "http://a.test/a/print/b", "http://a.test/a/print/b"),
        (r"https?://([^/]*/.*)", "$1", "https://example.org/a", "example.org/a"),
        (r".*", "", "http://a.test/", "text://-/"),
    ],
)  # fmt: skip
def test_a_regex_replaces_the_url_that_matches_as_a_whole(regex: str, shape: str, url: str, form: str) -> None:
    assert applied(url, {"regex": regex, "format": shape}) == form


def test_a_regex_keeps_its_first_group_by_default() -> None:
    assert applied("http://a.test/x?y", {"regex": r"([^?]*)\?.*"}) == "http://a.test/x"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["lower-case"], r"rule 1: there is no rule 'lower-case'; there are lowercase, .*; did you mean lowercase\?"),
        ([5], "rule 1: 5 is neither the name of a rule nor"),
        (["regex"], "rule 1: a regex is written"),
        (["lowercase", {"regex": "(a"}], r"rule 2: regex: '\(a': missing \), unterminated"),
        ([{"regex": "a", "format": "$1"}], r"format: '\$1': the regex has no group 1"),
        ([{"regex": "(a)", "format": "${2}"}], r"format: .*: the regex has no group 2"),
        ([{"regex": "(a)", "format": "${b}"}], r"format: .*: the regex has no group b"),
        ([{"regex": "(a)", "format": "a$"}], r"format: 'a\$': \$ stands alone"),
        ([{"regex": "(a)", "format": "a\\"}], r"stands alone; write \\\\ for"),
        ([{"format": "x"}], "give .*both as text"),
        ([{"regex": "a", "formt": "x"}], "a regex takes regex and format, not formt"),
    ],
)
def test_a_rule_that_is_not_valid_is_named(rules: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        HeritrixRules(rules=rules)


def test_every_wrong_rule_is_named_with_the_line_of_the_policy(files: Files) -> None:
    yaml = "frontier:\n  canonicalization_policy:\n    rules:\n      - lowercse\n      - {regex: '(', format: $1}\n"
    found = files.problems(yaml)
    assert len(found) == 2
    assert found[0].startswith("3:"), found


@pytest.mark.parametrize("rules", ["lowercase", {"regex": "a"}, 5])
def test_rules_are_a_list(rules: Any) -> None:
    with pytest.raises(PolicyError, match="rules is a list"):
        HeritrixRules(rules=rules)


@pytest.mark.parametrize(("name", "ours"), HERITRIX.items())
def test_heritrix_s_class_names_mean_ours(name: str, ours: str) -> None:
    if ours != "regex":
        assert HeritrixRules(rules=[f"org.archive.modules.canonicalize.{name}"]).id == HeritrixRules(rules=[ours]).id


def test_names_of_rules_may_have_underscores_and_a_list_stands_for_the_option() -> None:
    specs = {"rules": ["strip_www", "fix-query"]}, {"policy": "rules", "rules": ["strip-www", "fix_query"]}
    ours, again = (plugins.resolve("canonicalization", spec) for spec in specs)
    assert ours.id == again.id != HeritrixRules(rules=["fix-query", "strip-www"]).id  # type: ignore[attr-defined]
    assert HeritrixRules(rules=DEFAULT).id == plugins.resolve("canonicalization", "RulesCanonicalizationPolicy").id  # type: ignore[attr-defined]


@given(st.text(), st.lists(st.sampled_from([*ALL, *HERITRIX]).filter(lambda name: name != "RegexRule")))
def test_no_text_makes_them_raise(text: str, names: list[str]) -> None:
    applied(text, *names)
    assert applied(f"http://a.test/{text}", *names).find("/", 8) >= 0


PIECES = st.sampled_from(
    ["www.", "www2.", "a:b@", "/", "//", "?", "&", "=", "sid=", "cfid=", "&cftoken=", "1", ID, "jsessionid=", "Ab", "."]
)
URLS = st.lists(PIECES, max_size=12).map(lambda pieces: "http://example.org/" + "".join(pieces))


@given(URLS, st.sampled_from(["lowercase", "strip-extra-slashes", "strip-userinfo"]))
def test_rules_that_leave_nothing_of_their_kind_change_nothing_the_second_time(url: str, rule: str) -> None:
    form = applied(url, rule)
    assert applied(form, rule) == form


@given(URLS, st.lists(st.sampled_from(ALL), max_size=4))
def test_a_form_is_never_longer_and_keeps_the_host(url: str, names: list[str]) -> None:
    form = applied(url, *names)
    assert len(form) <= len(url)
    assert uris.split(form)[0] == "http://example.org"


def test_a_frontier_keeps_to_its_rules(tmp_path: Path) -> None:
    rules = {"rules": ["strip-www", {"regex": "(.*)/print", "format": "$1/"}]}
    with Frontier.open(tmp_path / "f", make_settings(canonicalization_policy=rules)) as frontier:
        assert frontier.schedule("http://www.a.test/a/print") is Admission.ADDED
        assert frontier.schedule(CrawlUri("http://a.test/a/")) is Admission.DUPLICATE
        assert frontier.lease(1)[0].uri.url == "http://www.a.test/a/print"
    with pytest.raises(SettingsError, match=r'frontier.canonicalization_policy: {"rules": \["strip-www", {"regex'):
        Frontier.open(tmp_path / "f", make_settings(canonicalization_policy={"rules": ["strip-www"]}))
    with pytest.raises(SettingsError, match=r'frontier.canonicalization_policy: {"rules": \["strip-www", {"regex'):
        Frontier.open(tmp_path / "f", Settings())
    with Frontier.open(tmp_path / "f", make_settings(canonicalization_policy=rules)) as frontier:
        assert frontier.schedule("http://a.test/a/print") is Admission.DUPLICATE
