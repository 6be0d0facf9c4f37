"""Scope rules: what each kind fits, and that the last one that fits decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.errors import SettingsError
from budgetfrontier.rules.scope import Scope, ScopeDecision, redirected_seed
from budgetfrontier.settings.schema import ScopeRule, ScopeSettings
from budgetfrontier.settings.scope_rules import Header, parse_rule
from tests.support import growing, memory

SEED = "https://example.org/"


def scope(*seeds: str, **given: Any) -> Scope:
    made = Scope(ScopeSettings(**given))
    for seed in seeds or (SEED,):
        made.add_seed(seed)
    return made


def link(url: str, hops: str = "L", meta: Any = None) -> CrawlUri:
    return CrawlUri(url, hops=hops, meta=meta)


def refined(*rules: dict[str, str]) -> Scope:
    """A scope that accepts everything, but for its `rules`."""
    ordered = tuple(ScopeRule(key == "accept", text) for rule in rules for key, text in rule.items())
    return scope(accept=("all",), rules=ordered)


# -- kinds


@pytest.mark.parametrize(
    ("rule", "url", "fits"),
    [
        ("seed-hosts", "https://example.org/a", True),
        ("seed-hosts", "http://www.example.org:8080/a", True),
        ("seed-hosts", "https://blog.example.org/", False),
        ("seed-hosts", "https://example.org.evil.test/", False),
        ("seed-hosts", "https://example.org@evil.test/", False),
        ("seed-domains", "https://blog.example.org/", True),
        ("seed-domains", "https://example.net/", False),
        ("domain:example.net", "https://a.example.net/", True),
        ("host:*.example.net", "https://example.net/", False),
        ("surt:(net,example,", "https://a.example.net/", True),
        ("surt:(net,example,)/docs/", "https://example.net/docs/a", True),
        ("surt:(net,example,)/docs/", "https://example.net/", False),
        ("surt:(net,example,)/docs/", "https://a.example.net/docs/", False),
        ("surt:http://(net,example,)/docs/", "https://example.net/docs/", False),
        ("surt:http://(net,example,)/docs/", "http://example.net/docs/", True),
        ("regex:/news/", "https://any.test/news/1", True),
        ("all", "https://any.test/", True),
        ("depth:>2", "https://any.test/a/b", False),
        ("depth:>2", "https://any.test/a/b/", False),
        ("depth:>2", "https://any.test/a/b/c", True),
        ("depth:>2", "https://any.test/a?/b/c/d", False),
        ("depth:<1", "https://any.test/", True),
        ("repeats:>2", "https://any.test/a/b/a/b/a", True),
        ("repeats:>2", "https://any.test/a/b/a/b/", False),
        ("repeats:>2", "https://any.test/a?x=/b/b/b/b", False),
        ("repeats:>=3", "https://any.test/a/a/a/", True),
        ("repeats:>2", "https://any.test////", True),
        ("length:>20", "https://any.test/12", False),
        ("length:>20", "https://any.test/1234", True),
        ("ext:zip,exe", "https://any.test/a.ZIP?x", True),
        ("ext: .zip , .exe", "https://any.test/a.exe", True),
        ("ext:zip,exe", "https://any.test/a.zip/", False),
        ("ext:zip,exe", "https://any.test/zip", False),
        ("ext:zip,exe", "https://any.test/a?b.zip", False),
        ("ext:zip", "https://any.zip/", False),
        ("ext:tar.gz", "https://any.test/a.tar.gz", True),
    ],
)
def test_what_a_rule_fits(rule: str, url: str, fits: bool) -> None:
    assert scope(accept=(rule,)).verdict(link(url)) == (
        ScopeDecision(True, rule) if fits else ScopeDecision(False, "not accepted")
    )
    assert (refined({"reject": rule}).objection(link(url)) is None) is not fits


@pytest.mark.parametrize(
    ("hops", "embedded"),
    [("LE", True), ("LEE", True), ("LEEE", True), ("LEEEE", False), ("LER", True), ("LRE", True), ("EL", False),
     ("L", False), ("LR", False), ("ELE", True)],
)  # fmt: skip
def test_embeds(hops: str, embedded: bool) -> None:
    assert scope(accept=("embeds",)).verdict(link("https://cdn.test/", hops)).accepted is embedded


def test_hops_are_compared() -> None:
    rules = refined({"reject": "hops:>2"})
    assert rules.objection(link(SEED, "LE")) is None
    assert rules.objection(link(SEED, "LEL")) == "rules[0] reject hops:>2"


# -- what only an answer tells


def answer(mime: str = "", length: str | None = None) -> FetchResult:
    headers = {"Content-Type": mime} if mime else {}
    return FetchResult(status=200, headers=headers | ({"Content-Length": length} if length is not None else {}))


@pytest.mark.parametrize(
    ("rule", "of", "rejected"),
    [
        ("type:image/*,video/*", answer("Image/PNG; q=1"), True),
        ("type:image/*,video/*", answer("text/html"), False),
        ("type:image/*", answer(), False),
        ("size:>10MB", answer("text/html", "10000001"), True),
        ("size:>10MB", answer("text/html", "10000000"), False),
        ("size:>0", answer("text/html"), False),
        ("size:>0", answer("text/html", "-1"), False),
        ("size:>0", answer("text/html", "many"), False),
        ("size:>0", answer("text/html", "9" * 18), True),
        ("size:>0", answer("text/html", "9" * 19), False),  # no size of anything
        ("size:>0", answer("text/html", "9" * 5000), False),
        ("size:<=1KiB", answer("text/html", " 1024 "), True),
    ],
)
def test_rules_on_the_answer_fit_once_its_header_is_in(rule: str, of: FetchResult, rejected: bool) -> None:
    rules = refined({"reject": rule})
    assert rules.objection(link(SEED)) is None
    assert rules.objection_to(link(SEED), of) == (f"rules[0] reject {rule}" if rejected else None)


def test_all_rules_are_asked_again_with_the_answer() -> None:
    only_html = refined({"reject": "type:*/*"}, {"accept": "type:text/html"}, {"reject": "ext:zip"})
    assert only_html.objection_to(link(SEED), answer("text/html")) is None
    assert only_html.objection_to(link(SEED), answer("text/plain")) == "rules[0] reject type:*/*"
    assert only_html.objection_to(link(SEED + "a.zip"), answer("text/html")) == "rules[2] reject ext:zip"


def test_a_redirect_is_followed_whatever_it_sends_along() -> None:
    rules = refined({"reject": "type:*/*"})
    of = answer("text/html")
    of.status, of.headers = 301, {**of.headers, "Location": "/a"}
    assert rules.objection_to(link(SEED), of) is None


# -- order


def test_reject_wins_over_accept_and_says_which_rule() -> None:
    rules = scope(accept=("all",), reject=(r"regex:\.(zip|exe)$",))
    assert rules.objection(link("https://example.org/a.zip")) == r"reject regex:\.(zip|exe)$"
    assert rules.objection(link("https://example.org/a.zip?x")) is None


def test_rules_refine_in_their_order() -> None:
    rules = scope(
        reject=("ext:zip,exe",),
        rules=(
            ScopeRule(True, "surt:(org,example,)/downloads"),
            ScopeRule(False, "ext:exe"),
            ScopeRule(True, "embeds"),
        ),
    )
    told = {
        SEED + "a.html": "accepted by seed-hosts",
        SEED + "a.zip": "out of scope: reject ext:zip,exe",
        SEED + "downloads/a.zip": "accepted by rules[0] accept surt:(org,example,)/downloads",
        SEED + "downloads/a.exe": "out of scope: rules[1] reject ext:exe",
        "https://other.test/": "out of scope: not accepted",
    }
    assert {url: str(rules.verdict(link(url))) for url in told} == told
    assert str(rules.verdict(link("https://cdn.test/a.exe", "LE"))) == "accepted by rules[2] accept embeds"


def test_hops_count_without_prerequisites() -> None:
    rules = scope(max_hops=2)
    assert rules.objection(link("https://example.org/", "LE")) is None
    assert rules.objection(link("https://example.org/robots.txt", "LEP")) is None
    assert rules.objection(link("https://example.org/", "PLE")) is None
    assert rules.objection(link("https://example.org/", "LLL")) == "max_hops"
    for most in (0, 1, 2):
        assert scope(max_hops=most).objection(link(SEED, "L" * most + "L")) == "max_hops"
        assert scope(max_hops=most).objection(link(SEED, "L" * most)) is None
    assert scope(max_hops=-1).objection(link("https://example.org/", "L" * 99)) is None


@pytest.mark.parametrize(
    ("url", "hops", "via", "accepted"),
    [
        ("https://maps.test/a.xml", "PI", f"{SEED}robots.txt", True),
        ("https://maps.test/a.xml", "LLRPI", f"{SEED}robots.txt", True),
        ("https://maps.test/a.xml", "PI", "https://elsewhere.test/robots.txt", False),  # of a site out of scope
        ("https://maps.test/a.xml", "EPI", f"{SEED}robots.txt", False),  # of what a page embeds
        ("https://maps.test/own.xml", "PIPI", "https://maps.test/robots.txt", False),  # of the host of a sitemap
        ("https://maps.test/part.xml", "PII", "https://maps.test/a.xml", True),
        ("https://other.test/part.xml", "PII", "https://maps.test/a.xml", False),
        ("https://other.test/a.xml", "PIR", "https://maps.test/a.xml", True),
        ("https://maps.test/page", "PIL", "https://maps.test/a.xml", False),
        ("https://maps.test/reject.xml", "PI", f"{SEED}robots.txt", False),
        ("https://maps.test/a.xml", "I", SEED, False),
    ],
)
def test_sitemaps_that_the_robots_txt_of_a_site_in_scope_names_are_in(
    url: str, hops: str, via: str, accepted: bool
) -> None:
    made = scope(accept=("seed-hosts",), reject=("regex:reject",))
    uri = CrawlUri(url, hops=hops, via=via)
    assert made.verdict(uri).accepted is accepted
    assert made.accepted([uri]) == [uri] * accepted


@pytest.mark.parametrize(
    ("given", "hops", "via", "meta", "accepted"),
    [
        ({"accept": (r"regex:^https://example\.org/$",)}, "PI", f"{SEED}robots.txt", None, True),
        ({"accept": ("seed-hosts",), "reject": ("hops:>1",)}, "PI", f"{SEED}robots.txt", None, True),
        ({"accept": ("hops:<2",)}, "LPI", f"{SEED}robots.txt", None, True),
        ({"accept": ("hops:<2",)}, "LLPI", f"{SEED}robots.txt", None, False),
        ({"accept": ("seed-hosts",)}, "RLPI", "https://moved.test/robots.txt", {"seed": "https://moved.test/"}, True),
        ({"accept": ("seed-hosts",)}, "RLPI", "https://moved.test/robots.txt", None, False),
        ({"accept": ("host:a",)}, "PI", "http://a/robots.txt", None, True),
        ({"accept": ("host:a",)}, "PI", "http://b/robots.txt", None, False),
    ],
)
def test_a_site_is_in_scope_if_its_root_is_with_the_hops_and_the_seed_of_its_page(
    given: dict[str, Any], hops: str, via: str, meta: Any, accepted: bool
) -> None:
    uri = CrawlUri("https://maps.test/a.xml", hops=hops, via=via, meta=meta)
    assert scope(**given).verdict(uri).accepted is accepted
    assert scope(**given).accepted([uri]) == [uri] * accepted


def test_seeds_and_prerequisites_are_always_in() -> None:
    rules = scope(reject=("all",), max_hops=0)
    assert str(rules.verdict(link("https://a.test/", ""))) == "accepted as a seed"
    assert str(rules.verdict(link("https://a.test/robots.txt", "LLP"))) == "accepted as a prerequisite"
    assert rules.objection_to(link("https://a.test/", ""), answer("image/png")) is None


def test_where_a_seed_redirects_to_counts_as_a_seed() -> None:
    rules = scope(reject=("ext:zip",))
    assert str(rules.verdict(link("https://moved.test/", "R"))) == "accepted as a redirected seed"
    assert rules.objection(link("https://moved.test/a.zip", "R")) == "reject ext:zip"
    assert rules.objection(link("https://moved.test/", "LR")) == "not accepted"
    assert rules.objection(link("https://moved.test/a", "RL", {"seed": "https://moved.test/"})) is None
    for meta in (None, {}, {"seed": 1}, {"seed": "https://other.test/"}, ["seed"], "seed"):
        assert rules.objection(link("https://moved.test/a", "RL", meta)) == "not accepted"
    links = [
        link("https://moved.test/a", "RL", meta)
        for meta in ({"seed": "https://moved.test/"}, {"seed": "https://other.test/"}, None, {})
    ]
    assert rules.accepted(links) == links[:1]


def test_the_shortest_host_has_a_scope_too() -> None:
    rules = scope("http://a/")
    links = [link("http://a/x"), link("http://a/x/y"), link("http://b/x")]
    assert [rules.verdict(uri).accepted for uri in links] == [True, True, False]
    assert scope("http://a/").accepted(links) == links[:2]


def test_of_many_those_in_scope_are_found_in_order_seeds_and_prerequisites_too() -> None:
    hops = ("", "L", "LP", "LLLL", "R", "")
    links = [link(f"https://other.test/{number}", each) for number, each in enumerate(hops)]
    links += [link(SEED, "L"), link(SEED, "LLLL")]
    rules = scope(max_hops=3)
    assert rules.accepted(links) == [links[0], links[2], links[4], links[5], links[6]]


@pytest.mark.parametrize(
    ("hops", "redirected"), [("", False), ("R", True), ("RRRRR", True), ("RRRRRR", False), ("RL", False), ("LR", False)]
)
def test_the_target_of_up_to_five_redirects_of_a_seed_counts_as_a_seed(hops: str, redirected: bool) -> None:
    assert redirected_seed(link("https://moved.test/", hops)) is redirected


def test_a_seed_that_comes_later_counts() -> None:
    rules = scope(accept=("seed-hosts", "seed-domains"))
    assert rules.objection(link("https://later.test/a")) == "not accepted"
    rules.add_seed("https://later.test/")
    assert rules.objection(link("https://later.test/a")) is None


def test_seeds_are_taken_as_they_are_written_and_invalid_ones_are_skipped() -> None:
    rules = scope()
    rules.add_seeds(["no URL", "HTTPS://Later.test:443/a/../b", "mailto:a@b.test", "//", "https://last.test"])
    assert rules.seed_keys == {"hosts": {"example.org", "later.test", "last.test"}}


@pytest.mark.parametrize("rule", ["seed-hosts", "seed-domains"])
def test_seeds_that_the_frontier_lists_count_once_they_are_listed(rule: str) -> None:
    found = scope("http://a.test/", accept=[rule])
    with memory() as frontier:
        found.add_listed(frontier.internals.seed_hosts)
        assert found.accepted([link("http://imported.test/x")]) == []
        url = "http://www.imported.test/"
        frontier.schedule(CrawlUri(url, directive=Directive.MEDIUM, meta={"seed": url}))
        assert found.verdict(link("http://imported.test/x")).rule == rule
        assert [uri.url for uri in found.accepted([link("http://imported.test/x")])] == ["http://imported.test/x"]
        frontier.schedule(CrawlUri("http://dropped.test/", directive=Directive.MEDIUM))
        assert found.objection(link("http://dropped.test/x")), "the seeds of the settings are those now in the settings"


class Listed:
    """A list of the seed https://www.shop.listed.test/, which counts how often it is asked."""

    def __init__(self) -> None:
        self.last, self.asked = 1, 0

    def has_host(self, bare: str) -> bool:
        self.asked += 1
        return bare == "shop.listed.test"

    def has_domain(self, domain: str, domain_of: Callable[[CrawlUri], Any]) -> bool:
        self.asked += 1
        return domain == "listed.test" and domain_of(CrawlUri("https://a.b.test/")) == "b.test"


@pytest.mark.parametrize(("rule", "below"), [("seed-hosts", False), ("seed-domains", True)])
def test_seeds_that_are_listed_count_by_their_host_or_by_their_domain(rule: str, below: bool) -> None:
    rules = scope(accept=[rule])
    assert not rules.verdict(link("https://shop.listed.test/a")).accepted
    rules.add_listed(Listed())
    hosts = {"shop.listed.test": True, "www.shop.listed.test": True, "listed.test": below, "other.test": False}
    assert {host: rules.verdict(link(f"https://{host}/a")).accepted for host in hosts} == hosts


def test_a_decision_on_a_whole_host_is_remembered_until_another_seed_is_listed() -> None:
    rules, listed = scope(accept=["seed-hosts"]), Listed()
    rules.add_listed(listed)
    links = [link(f"https://shop.listed.test/{path}") for path in ("", "a", "b", "a/b/c")]
    for _ in range(2):
        assert all(rules.verdict(uri).accepted for uri in links)
        assert rules.accepted(links) == links
    assert listed.asked == 1
    rules.accepted([link(f"https://other.test/{path}") for path in ("a", "b/c", "b/d")])
    assert listed.asked == 2
    listed.last += 1
    assert rules.accepted(links) == links
    assert listed.asked == 3


@pytest.mark.parametrize(("length", "asked"), [(1024, 1), (1025, 2)])
def test_decisions_on_hosts_and_seeds_of_more_than_1024_characters_are_not_remembered(length: int, asked: int) -> None:
    rules, listed = scope(accept=["seed-hosts"]), Listed()
    rules.add_listed(listed)
    root = "https://shop.listed.test/"
    uri = link(f"{root}a", "RL", {"seed": "https://b.test/".ljust(length - len(root), "x")})
    assert rules.verdict(uri).accepted and rules.verdict(uri).accepted
    assert listed.asked == asked


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    rules = scope(accept=("seed-hosts", "regex:x"))
    with growing() as grown:
        for number in range(20_000):
            rules.objection(link(f"https://host{number}.test/"))
        for number in range(1000):
            rules.objection(link(f"https://{'u' * 4000}{number}@a.test/"))
            rules.objection(link("https://a.test/", "RL", {"seed": f"https://a.test/{number}{'s' * 4000}"}))
    assert grown() < 20_000 * 150  # a host takes 270 bytes


# -- against a naive reading of the rules

HOSTS = ("example.org", "www.example.org", "a.example.org", "example.org.test", "other.test", "10.0.0.1", "[::1]")
PATHS = (
    "/",
    "/a",
    "/a/",
    "/a/b/c.zip",
    "/a/a/a/a",
    "/b//",
    "/docs/a.html",
    "/docs/x.ZIP?y=/a/a",
    "/?a.zip",
    "/A/b?sid=1",
)
RULES = (
    "all", "seed-hosts", "seed-domains", "domain:example.org", "domain:test", "host:*.org", "host:?????.test",
    "surt:(org,example,", "surt:(org,example,)/", "surt:(org,example,)/a", "surt:http://(org,example,)/docs/",
    "regex:[?&]sid=", "regex:/a", "hops:>2", "hops:<=1", "depth:>1", "depth:<2", "repeats:>1", "repeats:>=3",
    "length:>30", "length:<=22", "ext:zip", "ext:html,c.zip", "type:image/*", "type:text/html,*/png", "size:>10",
    "size:<=9", "embeds",
)  # fmt: skip
COMPARE = {">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b}


def naive_fits(text: str, uri: CrawlUri, header: Header | None, seeds: list[str]) -> bool:
    kind, _, rest = text.partition(":")
    parts = urlsplit(uri.url)
    netloc = parts.netloc.rpartition("@")[2]
    host = re.sub(r":\d+$", "", netloc)
    segments = [] if parts.path == "/" else parts.path[1:].removesuffix("/").split("/")
    here = [*seeds, uri.meta["seed"]] if uri.meta else seeds
    if kind in ("hops", "depth", "repeats", "length", "size"):
        sign, number = re.fullmatch(r"([<>]=?)(\d+)", rest).groups()  # type: ignore[union-attr]
        if kind == "size" and (header is None or header.length is None):
            return False
        value = {
            "hops": len(uri.hops.replace("P", "")),
            "depth": len(segments),
            "repeats": max([segments.count(one) for one in segments], default=1),
            "length": len(uri.url),
            "size": header.length if header else None,
        }[kind]
        return bool(COMPARE[sign](value, int(number)))
    match kind:
        case "all":
            return True
        case "seed-hosts":
            return host.removeprefix("www.") in {urlsplit(one).netloc.removeprefix("www.") for one in here}
        case "seed-domains":
            ends = {".".join(urlsplit(one).netloc.split(".")[-2:]) for one in here}
            return host[0] not in "1[" and ".".join(host.split(".")[-2:]) in ends
        case "domain":
            return f".{host}".endswith(f".{rest}")
        case "host":
            return fnmatchcase(host, rest)
        case "surt":
            surt = uris.surt(uri.url)
            return surt.startswith(rest) or re.sub("^https?://", "", surt).startswith(rest)
        case "regex":
            return bool(re.search(rest, uri.url))
        case "ext":
            return any(parts.path.split("/")[-1].lower().endswith(f".{one}") for one in rest.split(","))
        case "type":
            return header is not None and any(fnmatchcase(header.mime, one) for one in rest.split(","))
        case "embeds":
            return bool(re.search(r"(^|[^ER])R*E[ER]{0,2}$", uri.hops))
    raise AssertionError(kind)


def naive(given: ScopeSettings, uri: CrawlUri, header: Header | None, seeds: list[str]) -> bool:
    """Ask every rule in order; remember what the last one that fits says."""
    if not uri.hops or uri.hops.endswith("P"):
        return True
    if 0 <= given.max_hops < len(uri.hops.replace("P", "")):
        return False
    accepted = bool(re.fullmatch("R{1,5}|(.*L)?R*P(IR{0,5})+", uri.hops))  # a redirected seed, a sitemap
    ordered = [(True, text) for text in given.accept] + [(False, text) for text in given.reject]
    for accept, text in ordered + [(rule.accept, rule.rule) for rule in given.rules]:
        if naive_fits(text, uri, header, seeds):
            accepted = accept
    return accepted


rules_of = st.lists(st.sampled_from(RULES), max_size=4).map(tuple)
scopes = st.builds(
    ScopeSettings,
    accept=rules_of,
    reject=rules_of,
    rules=st.lists(st.builds(ScopeRule, st.booleans(), st.sampled_from(RULES)), max_size=6).map(tuple),
    max_hops=st.sampled_from((-1, 0, 2, 20)),
)
links = st.builds(
    lambda scheme, user, host, port, path, hops, seed: CrawlUri(
        uris.parse(f"{scheme}://{user}{host}{port}{path}"), hops=hops, meta=seed and {"seed": f"https://{seed}/"}
    ),
    st.sampled_from(("http", "https")),
    st.sampled_from(("", "user@", "a:b@")),
    st.sampled_from(HOSTS),
    st.sampled_from(("", ":8080")),
    st.sampled_from(PATHS),
    st.text("LERIP", max_size=6),
    st.sampled_from((None, *HOSTS[:5])),
)
headers = st.none() | st.builds(Header, st.sampled_from(("", "text/html", "image/png")), st.none() | st.integers(0, 20))


@given(scopes, st.lists(st.tuples(links, headers), min_size=1, max_size=12), st.sets(st.sampled_from(HOSTS[:5])))
def test_the_last_rule_that_fits_decides(
    given: ScopeSettings, asked: list[tuple[CrawlUri, Header | None]], hosts: set[str]
) -> None:
    seeds = [f"https://{host}/" for host in sorted(hosts)]
    rules = Scope(given)
    for seed in seeds:
        rules.add_seed(seed)
    for uri, header in asked * 2:  # the second time from what is remembered of the host
        verdict = rules.verdict(uri, header)
        assert verdict.accepted is naive(given, uri, header, seeds), (uri, header, verdict)
    every = [uri for uri, _ in asked]
    assert rules.accepted(every) == [uri for uri in every if naive(given, uri, None, seeds)]


@given(st.sampled_from([rule for rule in RULES if not rule.startswith("seed")]), links)
def test_what_holds_for_the_beginning_of_a_url_holds_for_it_all(text: str, uri: CrawlUri) -> None:
    rule = parse_rule(text)
    settled = rule.settle(uris.split(uri.url)[0] + "/") if rule.settle else None
    assert settled is None or settled is naive_fits(text, uri, None, [])


# -- SURT prefixes from a file


def test_a_file_of_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "scope.txt"
    path.write_text(
        "\ufeff# ours\n\n  example.org  # and below\n(net,example,)/docs\nhttp://one.test/\n", encoding="utf-8"
    )
    rules = scope(accept=(f"surt-file:{path}",))
    inside = ("https://example.org/", "http://a.example.org/x", "https://example.net/docs/1", "https://one.test/a")
    outside = ("https://example.net/", "https://a.example.net/docs/", "https://a.one.test/", "https://aexample.org/")
    assert [rules.objection(link(url)) for url in inside] == [None] * 4
    assert [rules.objection(link(url)) for url in outside] == ["not accepted"] * 4


def test_bad_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "scope.txt"
    path.write_text("example.org\nhttp://\ntwo words\n" + "///\n" * 50, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        scope(accept=(f"surt-file:{path}",))
    assert len(raised.value.problems) == 10
    assert raised.value.problems[0].startswith(f'{path}:2:1: "http://" is not a SURT prefix, URL or host')
    assert raised.value.problems[1].startswith(f'{path}:3:5: "words" follows a blank; ')
    with pytest.raises(SettingsError, match="cannot be read: No such file or directory"):
        scope(reject=(f"surt-file:{tmp_path / 'none.txt'}",))


# -- settings


@pytest.mark.parametrize("suffix", ["internal", "test", "lan", "corp"])
def test_the_domains_of_seeds_under_no_public_suffix(suffix: str) -> None:
    scope = Scope(ScopeSettings(accept=("seed-domains",)))
    scope.add_seed(f"http://www.intra.{suffix}/")
    assert scope.objection(CrawlUri(f"http://wiki.intra.{suffix}/", hops="L")) is None
    assert scope.objection(CrawlUri(f"http://wiki.other.{suffix}/", hops="L")) == "not accepted"
