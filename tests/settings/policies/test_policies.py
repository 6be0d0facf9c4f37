"""The built-in policies, rule by rule: cost, queue assignment, precedence, politeness, canonicalization."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tldextract
from hypothesis import example, given
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.settings.plugins import resolve
from budgetfrontier.settings.policies import assignment, cost, politeness, precedence
from budgetfrontier.settings.policies.canonicalization import Canonicalization

SITE = "https://example.org"


def page(path: str = "/", **options: Any) -> CrawlUri:
    """A URI of one site."""
    return CrawlUri(SITE + path, **options)


# -- cost


def test_zero_costs_nothing_and_unit_one_whatever_the_uri() -> None:
    for uri in (page(), page("/calendar?a", via=SITE + "/calendar")):
        assert cost.ZeroCost()(uri) == cost.ZeroCost.constant == 0
        assert cost.UnitCost()(uri) == cost.UnitCost.constant == 1


def test_wag_orders_q_before_q_x_before_p_b_found_on_p_a() -> None:
    wag = cost.WagCost()
    costs = [wag(page("/q")), wag(page("/q?x")), wag(page("/p?b", via=SITE + "/p?a"))]
    assert costs == [1, 2, 3]
    assert wag.constant is None


@pytest.mark.parametrize(
    ("path", "via", "expected"),
    [
        ("/p", "/p", 1),  # no query: its via does not matter
        ("/p?b", "/p", 3),
        ("/p?b", "/p/more", 3),  # "starts with", as in Heritrix
        ("/p?b", "/q?a", 2),
        ("/p?b", None, 2),
        ("/p?", "/p", 1),  # an empty query is none
        ("/p?b?c", "/p?a", 3),
    ],
)
def test_wag_counts_the_query_and_the_via(path: str, via: str | None, expected: int) -> None:
    assert cost.WagCost()(page(path, via=via and SITE + via)) == expected


HERITRIX_CALENDAR = re.compile(
    r"(?i)(calendar)|(year)|(month)|(day)|(date)|(viewcal)|(\D19\d\d\D)|(\D20\d\d\D)|(event)|(yr=)|(calendrier)|(jour)"
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", 1),
        ("/Calendar", 2),
        ("/a?YR=7", 2),
        ("/journal", 2),
        ("/2026/", 2),
        ("/1999-x", 2),
        ("/2026", 1),  # the end of the URI is no character after the year
        ("/12026/", 1),
        ("/20266/", 1),
        ("/1899/", 1),
        ("/calendar/2026/05/day?event=1", 2),  # once
    ],
)
def test_anti_calendar_adds_one_for_what_looks_like_a_calendar(path: str, expected: int) -> None:
    assert cost.AntiCalendarCost()(page(path)) == expected


@given(st.text("19208aA/?=-YyRre", max_size=12), st.sampled_from(["", "MONTH", "ViewCal", "calendrier", "yr="]))
def test_anti_calendar_agrees_with_heritrix_s_pattern(text: str, word: str) -> None:
    uri = page("/" + text + word)
    assert cost.AntiCalendarCost()(uri) == 1 + bool(HERITRIX_CALENDAR.search(uri.url))


def additive(*rules: dict[str, Any]) -> cost.AdditiveCost:
    return cost.AdditiveCost(rules=rules)


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        ({"when": "depth", "over": 3, "add": 7}, "/a/b/c", 1),
        ({"when": "depth", "over": 3, "add": 7}, "/a/b/c/", 1),
        ({"when": "depth", "over": 3, "add": 7}, "/a//b/c/d?e/f", 8),
        ({"when": "depth", "add": 7}, "/", 1),
        ({"when": "depth", "add": 7}, "/a", 8),
        ({"when": "depth", "over": 1, "add-each": 7}, "/a/b/c", 15),
        ({"when": "depth", "over": 1, "add": 1, "add_each": 7}, "/a/b/c", 16),
        ({"when": "query-args", "over": 2, "add": 7}, "/?a=1&b&", 1),
        ({"when": "query_args", "over": 2, "add": 7}, "/?a=1&b&a=1", 8),
        ({"when": "query-args", "add": 7}, "/a", 1),
        ({"when": "repeated-segments", "over": 2, "add": 7}, "/a/b/a/b", 1),
        ({"when": "repeated-segments", "over": 2, "add": 7}, "/a/b/a/b/a", 8),
        ({"when": "repeated-segments", "add": 7}, "/", 1),
        ({"when": "regex", "pattern": r"/cal/\d+", "add": 7}, "/x/cal/12", 8),
        ({"when": "regex", "pattern": r"/cal/\d+", "add": 7}, "/CAL/12", 1),
        ({"when": "regex", "pattern": r"(?i)/cal/\d+", "add": 7}, "/CAL/12", 8),
        ({"when": "extension", "in": ["pdf", ".ZIP"], "add": 7}, "/a.PDF?x", 8),
        ({"when": "extension", "in": ["pdf", ".ZIP"], "add": 7}, "/a.zip", 8),
        ({"when": "extension", "in": ["pdf"], "add": 7}, "/a.pdf/b", 1),
        ({"when": "extension", "in": ["pdf"], "add": 7}, "/pdf?a.pdf", 1),
        ({"when": "extension", "in": "pdf", "add": 7}, "/a.pdf", 8),
    ],
)
def test_additive_rule(rule: dict[str, Any], path: str, expected: int) -> None:
    assert additive(rule)(page(path)) == expected


def test_additive_hops() -> None:
    policy = additive({"when": "hops", "over": 2, "add": 4})
    assert [policy(page(hops=hops)) for hops in ("", "LL", "LLE")] == [1, 1, 5]


def test_additive_without_rules_is_unit_cost() -> None:
    assert cost.AdditiveCost()(page("/a/b/c?d")) == 1


def test_additive_sums_all_rules_that_match() -> None:
    policy = additive(
        {"when": "depth", "over": 1, "add": 1},
        {"when": "query-args", "add": 10},
        {"when": "hops", "over": 5, "add": 100},
        {"when": "regex", "pattern": "^https:", "add": 1000},
    )
    assert policy(page("/a/b?c", hops="L")) == 1012


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("depth", "is not a mapping"),
        ({}, r"when: \(missing\) is not one of depth, query-args"),
        ({"when": "depht", "add": 1}, "depht is not one of depth"),
        ({"when": "depth"}, "no weight"),
        ({"when": "depth", "over": 1, "ad": 1}, "does not take ad, but add, add-each, over"),
        ({"when": "depth", "add": 0}, "add: 0 is not a whole number >= 1"),
        ({"when": "depth", "add": True}, "add: True"),
        ({"when": "depth", "add": 1.5}, "add: 1.5"),
        ({"when": "depth", "add-each": "1"}, "add-each: '1'"),
        ({"when": "depth", "over": -1, "add": 1}, "over: -1 is not a whole number >= 0"),
        ({"when": "regex", "add": 1}, "needs pattern"),
        ({"when": "regex", "pattern": "(", "add": 1}, "pattern: "),
        ({"when": "regex", "pattern": "a{99999999999}", "add": 1}, "pattern: "),
        ({"when": "regex", "pattern": "a", "over": 1, "add": 1}, "does not take over"),
        ({"when": "extension", "add": 1}, "needs in"),
        ({"when": "extension", "in": [], "add": 1}, "needs in"),
        ({"when": "extension", "in": [7], "add": 1}, "needs in"),
    ],
)
def test_additive_refuses_what_is_no_rule(rule: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        additive(rule)


def test_additive_names_every_bad_rule() -> None:
    with pytest.raises(PolicyError) as caught:
        additive({"when": "depth"}, {"when": "depth", "add": 1}, {"when": "regex", "add": 1})
    assert [problem.partition(": ")[2].partition(":")[0] for problem in caught.value.problems] == ["rule 1", "rule 3"]


@pytest.mark.parametrize("rules", ["depth", {"when": "depth"}, 3, None])
def test_additive_rules_are_a_list(rules: Any) -> None:
    with pytest.raises(PolicyError, match="rules is a list"):
        cost.AdditiveCost(rules=rules)


def test_importing_policies_is_cheap() -> None:
    code = (
        "import sys; from budgetfrontier.settings.policies import assignment, cost; assignment.RegisteredDomain(); "
        "print(sorted({'tldextract', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_only_registered_domains_import_tldextract(tmp_path: Path) -> None:
    """It asks no network: sockets cannot be opened here. What it reads the list from is removed."""
    code = f"""
import os, socket, sys
def refuse(*_): raise AssertionError("a socket")
socket.socket.connect = socket.getaddrinfo = refuse
import budgetfrontier
from budgetfrontier import CrawlUri, Frontier, Settings
for policy in "hostname", "registered-domain":
    settings = Settings.from_dict({{"frontier": {{"queue_assignment_policy": policy}}}})
    for _ in range(2):
        with Frontier.open({str(tmp_path)!r} + "/" + policy, settings) as f:
            f.schedule("https://www.example.co.uk/")
            print(f.internals.queue_key(CrawlUri("https://www.example.co.uk/")), "tldextract" in sys.modules)
"""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "TMPDIR": str(temporary), "HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["www.example.co.uk False"] * 2 + ["example.co.uk True"] * 2
    assert [*temporary.iterdir()] == [] and not (tmp_path / "home").exists() and not done.stderr


# -- queue assignment


@pytest.mark.parametrize(
    ("url", "hostname", "surt", "domain"),
    [
        ("http://www.example.co.uk/", "www.example.co.uk", "uk,co,example,www,", "example.co.uk"),
        ("https://www.example.co.uk/", "www.example.co.uk", "uk,co,example,www,", "example.co.uk"),
        ("http://u:p@a.example.org:8080/x", "a.example.org:8080", "org,example,a,:8080", "example.org"),
        ("https://blog.github.io/", "blog.github.io", "io,github,blog,", "blog.github.io"),
        ("https://github.io/", "github.io", "io,github,", "github.io"),
        ("http://localhost:81/", "localhost:81", "localhost,:81", "localhost"),
        ("http://127.0.0.1:81/", "127.0.0.1:81", "127.0.0.1:81", "127.0.0.1"),
        ("http://[::1]:81/", "[::1]:81", "[::1]:81", "[::1]"),
        ("http://www.xn--85x722f.com.cn/", "www.xn--85x722f.com.cn", "cn,com,xn--85x722f,www,", "xn--85x722f.com.cn"),
        ("http://a.b.unknown-tld/", "a.b.unknown-tld", "unknown-tld,b,a,", "b.unknown-tld"),
        ("http://www.db.lan/", "www.db.lan", "lan,db,www,", "db.lan"),
        ("http://internal/", "internal", "internal,", "internal"),
        ("http://a.b.localhost/", "a.b.localhost", "localhost,b,a,", "b.localhost"),
    ],
)
def test_queue_keys(url: str, hostname: str, surt: str, domain: str) -> None:
    uri = CrawlUri(url)
    assert assignment.Hostname()(uri) == hostname
    assert assignment.SurtAuthority()(uri) == surt
    assert assignment.RegisteredDomain()(uri) == domain
    assert assignment.TopmostAssignedSurt()(uri) == uris.surt_authority(
        hostname if "." not in domain or uris.is_address(domain) else domain
    )
    assert assignment.Single()(uri) == "all"


@pytest.mark.parametrize("name", ["hostname", "surt-authority", "registered-domain", "topmost-assigned-surt", "single"])
def test_keys_without_parallel_queues_depend_on_the_authority_alone(name: str) -> None:
    policy = assignment.BUILTIN[name]()
    assert policy.by_authority
    assert policy(page("/a/b?c")) == policy(page("/"))


@pytest.mark.parametrize(
    ("url", "limit", "hostname", "surt"),
    [
        ("http://www.a.example.com/", 2, "example.com", "com,example,"),
        ("http://example.com/", 2, "example.com", "com,example,"),
        ("http://com/", 2, "com", "com,"),
        ("http://a.b.example.com:8080/", 2, "example.com:8080", "com,example,:8080"),
        ("http://a.b.example.com/", 1, "com", "com,"),
        ("http://a.b.example.com/", 3, "b.example.com", "com,example,b,"),
        ("http://a.b.example.com/", 4, "a.b.example.com", "com,example,b,a,"),
        ("http://a.b.example.com/", 9, "a.b.example.com", "com,example,b,a,"),
        ("http://a.b.example.com/", 0, "a.b.example.com", "com,example,b,a,"),
        ("http://a.b.example.com/", -1, "a.b.example.com", "com,example,b,a,"),
        ("http://192.0.2.7:81/", 2, "192.0.2.7:81", "192.0.2.7:81"),
        ("http://[2001:db8::1]/", 1, "[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_keys_are_cut_to_labels(url: str, limit: int, hostname: str, surt: str) -> None:
    by_host = assignment.Hostname(limit=limit)
    assert by_host(CrawlUri(url)) == hostname
    assert assignment.SurtAuthority(limit=limit)(CrawlUri(url)) == surt
    assert by_host.by_authority
    assert by_host.one_host is (limit <= 0)


@pytest.mark.parametrize(
    ("path", "directory", "whole"),
    [
        ("/", "", "+1"),
        ("/news", "", "+5"),
        ("/news?a/b", "", "+7"),
        ("//news/", "", "+5"),
        ("/news/", "", "+3"),
        ("/a/", "+7", "+4"),
        ("/a/b?c", "+7", "+2"),
        ("/docs/", "+5", "+2"),
        ("/images/x.png", "+3", "+5"),
        ("/%C3%A9/", "+6", "+1"),
    ],
)
@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("hostname", "www.example.org"),
        ("surt-authority", "org,example,www,"),
        ("registered-domain", "example.org"),
        ("topmost-assigned-surt", "org,example,"),
    ],
)
def test_parallel_queues(name: str, core: str, path: str, directory: str, whole: str) -> None:
    """The numbers are those of `LongToIntConsistentHash` in heritrix-commons 3.4.0-20220727."""
    uri = CrawlUri(f"http://www.example.org{path}")
    policy: Any = resolve("assignment", {name: {"parallel_queues": 8}})
    assert policy(uri) == core + directory
    assert not policy.by_authority
    at_random = resolve("assignment", {name: {"parallel-queues": 8, "parallel_queues_random_assignment": True}})
    assert at_random(uri) == core + whole
    alone: Any = resolve("assignment", {name: {"parallel_queues": 1}})
    assert alone(uri) == core and alone.by_authority
    for attribute in ("one_host", "needs_suffix_list"):
        assert getattr(policy, attribute) == getattr(assignment.BUILTIN[name](), attribute, False)


def test_keys_that_hosts_share_with_parallel_queues_or_as_they_have_empty_labels() -> None:
    """They wait for one another, and nothing else."""
    parallel = resolve("assignment", {"hostname": {"parallel_queues": 8}})
    assert parallel(CrawlUri("http://www.example.org/docs/a")) == "www.example.org+5"
    assert parallel(CrawlUri(uris.parse("http://www.example.org+5/"))) == "www.example.org+5"
    limited = resolve("assignment", {"hostname": {"limit": 2}})
    assert [limited(CrawlUri(uris.parse(f"http://{host}..test/"))) for host in "ab"] == [".test", ".test"]


@pytest.mark.parametrize(
    ("url", "address", "ip", "bucket"),
    [
        ("http://www.example.org/", None, "www.example.org", "NO-IP-375"),
        ("http://www.example.org:81/", None, "www.example.org:81", "NO-IP-375"),
        ("http://example.org/", None, "example.org", "NO-IP-928"),
        ("http://www.example.org:81/", "192.0.2.7", "192.0.2.7", "529"),
        ("http://example.org/", "2001:db8::1", "2001:db8::1", "910"),
    ],
)
def test_keys_by_address(url: str, address: str | None, ip: str, bucket: str) -> None:
    """The numbers are those of Java's `String.hashCode` and `InetAddress.hashCode`."""
    assert assignment.Ip()(CrawlUri(url), address=address) == ip
    assert assignment.Bucket()(CrawlUri(url), address=address) == bucket


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": "2"}, "limit is a whole number from -1 to 127, not '2'"),
        ({"limit": True}, "limit is a whole number from -1 to 127, not True"),
        ({"limit": 128}, "not 128"),
        ({"parallel_queues": 0}, "parallel_queues is a whole number from 1 to 1024, not 0"),
        ({"parallel_queues": 2.0}, "not 2.0"),
        ({"parallel_queues_random_assignment": 1}, "parallel_queues_random_assignment is true or false, not 1"),
    ],
)
def test_options_of_a_wrong_value_are_refused(options: dict[str, object], message: str) -> None:
    for name in ("hostname", "surt-authority"):
        with pytest.raises(PolicyError, match=message):
            resolve("assignment", {name: options})


def test_registered_domain_goes_by_the_stored_suffix_list() -> None:
    stored = "// ===BEGIN ICANN DOMAINS===\norg\n*.ck\n!www.ck\n// ===BEGIN PRIVATE DOMAINS===\nexample.org\n"
    policy = assignment.RegisteredDomain(suffix_list=stored)
    keys = {host: policy(CrawlUri(f"http://{host}/")) for host in ("a.b.example.org", "a.b.c.ck", "a.www.ck", "a.b.uk")}
    assert keys == {
        "a.b.example.org": "b.example.org",
        "a.b.c.ck": "b.c.ck",
        "a.www.ck": "www.ck",
        "a.b.uk": "a.b.uk",
    }


@pytest.mark.parametrize("host", ["a.b.internal", "a.b.test", "a.b.corp"])
def test_the_default_rule_counts_where_the_list_has_it(host: str) -> None:
    uri = CrawlUri(f"http://{host}/")
    plain = "org\n"
    assert assignment.RegisteredDomain(suffix_list=plain)(uri) == host
    keys = assignment.RegisteredDomain(suffix_list=assignment.with_default_rule(plain))
    assert keys(uri) == keys(CrawlUri(f"http://{host}./")) == ".".join(host.split(".")[1:])
    assert [keys(CrawlUri(f"http://{address}/")) for address in ("10.0.0.1", "[2001:db8::1]")] == [
        "10.0.0.1",
        "[2001:db8::1]",
    ]


REFERENCE = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
BUNDLED = assignment.RegisteredDomain(suffix_list=assignment.bundled_suffix_list())
LINES = assignment.bundled_suffix_list().splitlines()
SUFFIXES = sorted(line.split()[0].lstrip("!*.") for line in LINES if line and not line.startswith("//"))


@given(st.lists(st.sampled_from(["a", "www", "city", "b-c"]), max_size=3), st.sampled_from(SUFFIXES))
@example(["a", "b"], "kawasaki.jp")
@example(["x", "city"], "kawasaki.jp")
@example(["a", "www"], "ck")
@example(["a", "b"], "blogspot.com")
@example(["a"], "公司.cn")
@example(["a", "b"], "unknown-tld")
def test_registered_domain_agrees_with_tldextract(labels: list[str], suffix: str) -> None:
    uri = CrawlUri(uris.parse(f"http://{'.'.join([*labels, suffix])}/"))
    host = uris.host(uri.url)
    assert BUNDLED(uri) == (REFERENCE(host).top_domain_under_public_suffix or host)


@pytest.mark.parametrize("text", ["", "public_suffix_list.dat"])
def test_a_suffix_list_is_a_text_and_no_file_name(text: str) -> None:
    with pytest.raises(PolicyError, match="text of a public suffix list"):
        assignment.RegisteredDomain(suffix_list=text)


# -- precedence


def test_base_precedence_is_the_setting() -> None:
    assert [precedence.Base()(page(), precedence=value) for value in (0, 3, 65535)] == [0, 3, 65535]


# -- politeness


def rest(
    fetch_seconds: float | None, crawl_delay: float | None = None, *, random: float = 0.5, **changed: float
) -> float:
    """The delay under Heritrix's settings."""
    settings = {"delay_factor": 5.0, "min_delay": 3.0, "max_delay": 30.0, "respect_crawl_delay_up_to": 300.0}
    chosen = SimpleNamespace(**{**settings, "jitter": 0.0, **changed})
    policy = politeness.Politeness()
    return policy(chosen, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay, random=lambda: random)


@pytest.mark.parametrize(
    ("fetch_seconds", "crawl_delay", "expected"),
    [
        (0.8, None, 4.0),
        (0.1, None, 3.0),
        (10.0, None, 30.0),
        (None, None, 3.0),
        (0.8, 45.0, 45.0),  # overrides the maximum
        (0.8, 900.0, 300.0),  # up to a limit
        (0.8, 1.0, 4.0),  # shortens nothing
        (10.0, 1.0, 30.0),
        (None, 10.0, 10.0),
        (0.0, 0.0, 3.0),
        (-5.0, -5.0, 3.0),  # a clock that was set back
        (float("inf"), None, 30.0),
        (float("nan"), float("nan"), 3.0),
    ],
)
def test_politeness(fetch_seconds: float | None, crawl_delay: float | None, expected: float) -> None:
    assert rest(fetch_seconds, crawl_delay) == expected


def test_a_crawl_delay_can_be_ignored() -> None:
    assert rest(0.8, 45.0, respect_crawl_delay_up_to=0.0) == 4.0


def test_jitter_comes_on_top() -> None:
    assert [rest(0.8, jitter=2.0, random=random) for random in (0.0, 0.5)] == [4.0, 5.0]
    assert rest(10.0, jitter=2.0) == 31.0


@given(
    st.none() | st.floats(),
    st.none() | st.floats(),
    st.floats(0, 1, exclude_max=True),
)
def test_politeness_keeps_its_bounds(fetch: float | None, crawl_delay: float | None, random: float) -> None:
    assert 3.0 <= rest(fetch, crawl_delay, jitter=1.0, random=random) <= 301.0


# -- canonicalization

CANONICAL = Canonicalization()


def canonical(url: str, **options: Any) -> str:
    return Canonicalization(**options)(uris.parse(url))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Example.ORG:80/Path#fragment", "http://example.org/Path"),
        ("http://user:secret@example.org/", "http://example.org/"),
        ("http://www.example.org/", "http://example.org/"),
        ("http://www12.example.org:81/", "http://example.org:81/"),
        ("http://u@www.example.org/", "http://example.org/"),
        ("http://www.org/", "http://www.org/"),
        ("http://wwwx.example.org/", "http://wwwx.example.org/"),
        ("http://example.org/a?", "http://example.org/a"),
        ("http://example.org/a?b&", "http://example.org/a?b"),
        ("http://example.org/a?&&b&&c", "http://example.org/a?b&c"),
        ("http://example.org/?b=2&a=1&B=3&a=0", "http://example.org/?B=3&a=0&a=1&b=2"),
        ("http://example.org/?utm_source=x&UTM_Medium=y&a=1&fbclid=z", "http://example.org/?a=1"),
        ("http://example.org/?gclid", "http://example.org/"),
        ("http://example.org/?gclids=1&utm=2", "http://example.org/?gclids=1&utm=2"),
        ("http://example.org/?PHPSESSID=9682993c8daa2c5497996114facdc805&a", "http://example.org/?a"),
        ("http://example.org/?a&sid=9682993c8daa2c5497996114facdc805", "http://example.org/?a"),
        ("http://example.org/?sid=12", "http://example.org/?sid=12"),
        ("http://example.org/?ASPSESSIONIDAQBSDSRT=EOHBLBDDPFCLHKPGGKLILNAM&a", "http://example.org/?a"),
        ("http://example.org/?CFID=12412453&CFTOKEN=15501799&dt=19", "http://example.org/?dt=19"),
        ("http://example.org/a;jsessionid=0E1A?b", "http://example.org/a?b"),
        ("http://example.org/a;JSESSIONID=0E1A/b;v=1", "http://example.org/a/b;v=1"),
        ("http://example.org/(S(4hqa0555fwsecu455xqckv45))/a.aspx", "http://example.org/a.aspx"),
        ("http://example.org/x/(4hqa0555fwsecu455xqckv45)/a.aspx", "http://example.org/x/a.aspx"),
        ("http://example.org/(chapter)/a", "http://example.org/(chapter)/a"),
        ("http://example.org/%7euser/%2f%c3%bc", "http://example.org/~user/%2F%C3%BC"),
        ("http://example.org/?%61=%2f&utm%5Fsource=x", "http://example.org/?a=%2F"),
        ("http://example.org/100%?a=%zz", "http://example.org/100%?a=%zz"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]/"),
    ],
)
def test_canonical_form(url: str, expected: str) -> None:
    assert CANONICAL(uris.parse(url)) == expected


def test_http_and_https_are_different_uris() -> None:
    assert canonical("http://example.org/") != canonical("https://example.org/")


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("strip_userinfo", "http://user@example.org/"),
        ("strip_www", "http://www.example.org/"),
        ("strip_session_ids", "http://example.org/a;jsessionid=1?phpsessid=2"),
        ("strip_tracking", "http://example.org/?utm_source=x"),
        ("sort_query", "http://example.org/?b&a"),
    ],
)
def test_each_rule_can_be_turned_off(option: str, url: str) -> None:
    assert canonical(url, **{option: False}) == url
    assert canonical(url) != url


def test_www_is_stripped_behind_userinfo_that_is_kept() -> None:
    assert canonical("http://u@www.example.org/", strip_userinfo=False) == "http://u@example.org/"
    assert canonical("http://www.u.v@example.org/", strip_userinfo=False) == "http://www.u.v@example.org/"


def test_ignored_and_kept_parameters() -> None:
    url = "http://example.org/?lang=en&ref=1&id=7&utm_source=x&ref"
    assert canonical(url, ignore_params=["ref", "lang"]) == "http://example.org/?id=7"
    assert canonical(url, keep_params=["id", "lang", "utm_source"]) == "http://example.org/?id=7&lang=en"
    assert canonical(url, keep_params=["utm_source"], strip_tracking=False) == "http://example.org/?utm_source=x"
    assert canonical("http://example.org/?Ref=1", ignore_params="ref") == "http://example.org/?Ref=1"


def test_ignoring_and_keeping_parameters_at_once_is_refused() -> None:
    with pytest.raises(PolicyError, match="ignore_params or keep_params, not both"):
        Canonicalization(ignore_params=["a"], keep_params=["b"])


@pytest.mark.parametrize(
    "options",
    [{"strip_www": "no"}, {"sort_query": 1}, {"ignore_params": 3}, {"keep_params": [1]}, {"ignore_params": [""]}],
)
def test_options_of_the_wrong_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=next(iter(options))):
        Canonicalization(**options)


def test_the_id_names_version_and_options_and_nothing_else() -> None:
    """It is stored: a change here keeps every frontier from being opened."""
    assert Canonicalization().id == "1-88cf94e50ddf6324"
    assert Canonicalization(ignore_params=["a", "b"]).id == Canonicalization(ignore_params=("b", "a", "b")).id
    others: list[dict[str, Any]]
    others = [{name: False} for name in ("strip_userinfo", "strip_www", "strip_session_ids", "strip_tracking")]
    others += [{"sort_query": False}, {"ignore_params": ["a"]}, {"keep_params": ["a"]}, {"keep_params": ["b"]}]
    assert len({Canonicalization().id, *(Canonicalization(**options).id for options in others)}) == len(others) + 1


@given(st.text("abcXYZ019_~./-"))
def test_a_plain_path_is_its_own_canonical_form(path: str) -> None:
    assert CANONICAL.path("/" + path) == "/" + path


PARAMETERS = st.lists(st.sampled_from(["a=1", "a", "a=", "b=%7E", "B=2", "c[]=3", "d=%2f", "sid=7"]), max_size=6)


@given(st.data(), PARAMETERS)
def test_order_and_tracking_make_no_difference(data: st.DataObject, parameters: list[str]) -> None:
    noise = data.draw(st.lists(st.sampled_from(["utm_campaign=1", "gclid=2", "", "jsessionid=3"])))
    shuffled = data.draw(st.permutations(parameters + noise))
    assert CANONICAL.query("&".join(shuffled)) == CANONICAL.query("&".join(parameters))


@given(st.text("aB7%2fe;=&?(S)jsessionid/~é \ud800", max_size=30), st.booleans())
def test_a_canonical_form_is_ascii_made_of_its_parts_and_still_a_url(tail: str, query: bool) -> None:
    try:
        href = uris.parse(f"https://u@www.example.org/{'?' if query else ''}{tail}")
    except InvalidUrl:
        return
    form = CANONICAL(href)
    prefix, path, arguments = uris.split(href)
    assert form == CANONICAL.authority(prefix) + CANONICAL.path(path) + CANONICAL.query(arguments)
    assert form.isascii() and form.startswith("https://example.org/")
    assert uris.split(form)[0] == "https://example.org"
