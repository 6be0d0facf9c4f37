"""Warnings of patterns that match nothing, and none of those that do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.settings.unmatchable import matches_no_host, never_matches

WRONG = {
    "host:*.a b.org": "a host has no spaces",
    "host:*.a.org:8080": "the host is compared, which has no port",
    "host:http://*.a.org": "the host is compared, which has no scheme",
    "host:*.a.org/docs": "the host is compared, which has no path",
    "domain:*.a.*": "a domain has no wildcards",
    "surt:(org,a b,": "a URL has no spaces; write %20",
    "surt:http://(org,a,)/x y": "a URL has no spaces; write %20",
    "surt:(org,*": "a SURT prefix has no wildcards",
    "queue:*.a b.org": "the key of a queue has no spaces, unless",
    "queue:http://a.org": "the key of a queue has no scheme, unless",
    "queues:a.org,b c": "the key of a queue has no spaces, unless",
    "regex:/a b": "a URL has no spaces; write %20",
    r"regex:^https://Example\.org/": "the host of a URL is in lower case",
    r"regex:\Ahttps?://www.Example\.org:8080/a": "the host of a URL is in lower case",
}
RIGHT = (
    "*", "host:*.A.org", "host:a.org", "host:[2001:db8:*", "domain:*.A.org", "surt:(ORG,a,)/Docs?x=*",
    "queue:A.org:8080", "queue:*.a.org:8080", "queues:a.org, b.org", 'queues:["a,b"]', r"regex:\s", "regex:[ #]", "regex:(?i)^https://A",
    "regex:^https://a/B", "regex:x|a b", "regex:a#?b", r"regex:redirect=https?://WWW\.Example",
    r"regex:/web/\d+/http://Example\.com/", "regex:/Wiki/https://Foo", "regex:[?]u=http://Www", "regex:://Www",
    r"regex:^https?://web\.archive\.org/web/\d+/http://Example\.com/", "regex:^https://User", "regex:^https://User@a/",
    "regex:^https://Ex?/", "regex:^https://Me/?", r"regex:^https://\S+/", r"regex:(?i)^https://Example\.org/",
    r"regex:^https://Example\.org/|/x",
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_pattern_that_matches_nothing_is_told_with_the_reason(text: str) -> None:
    parse_match(text)
    told = never_matches(text)
    assert told is not None and told.startswith(f'"{text}" matches nothing: {WRONG[text]}')
    warnings: list[str] = []
    validate_override(text, {"queue_total_budget": 1}, warnings=warnings)
    of_keys = text.startswith("queue")  # the policy that gives them is not known here
    assert warnings == ([] if of_keys else [told])


@pytest.mark.parametrize("text", RIGHT)
def test_one_that_may_match_is_not(text: str) -> None:
    parse_match(text)
    assert never_matches(text) is None


@pytest.mark.parametrize(
    ("glob", "right"), [("*.test", True), ("*.test:80", False), ("http://*", False), ("a b", False)]
)
def test_hosts_of_resolve(glob: str, right: bool) -> None:
    assert (matches_no_host(glob) is None) is right


def test_each_place_of_a_configuration_is_told_by_line(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(
        "seeds: [https://example.org/]\n"
        "scope:\n"
        "  accept: ['host:*.a b.org', seed-hosts]\n"
        "  rules:\n"
        "    - reject: 'regex:/a b'\n"
        "overrides:\n"
        "  - match: 'host:*.a.org:80'\n"
        "    set: {queue_total_budget: 1}\n"
        "fetch:\n"
        "  user_agent: 'Bot/1 (+https://example.org/bot)'\n"
        "  requests:\n"
        "    - match: 'host:http://*.a.org'\n"
        "      headers: {X: y}\n"
        "  resolve:\n"
        "    '*.test:80': '127.0.0.1:80'\n"
    )
    warnings = load(path, Settings())[1]
    lines = [int(found[1]) for line in warnings if (found := re.match(r".*?:(\d+):\d+: .* matches nothing: ", line))]
    assert sorted(lines) == [3, 5, 7, 12, 15]


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("hostname", 2),
        ("{policy: surt-authority}", 2),
        ("org.archive.crawler.frontier.HostnameQueueAssignmentPolicy", 2),
        (f"{__name__}:by_scheme", 0),
    ],
)
def test_keys_that_an_assignment_policy_of_ones_own_may_give_are_not_told(
    tmp_path: Path, policy: str, told: int
) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(
        "overrides:\n"
        "  - {match: 'queue:http://a.test', set: {queue_total_budget: 1}}\n"
        "  - {match: 'queue:group a*', set: {queue_total_budget: 1}}\n"
        f"frontier: {{queue_assignment_policy: {policy!r}}}\n".replace("'{", "{").replace("}'", "}")
    )
    warnings = load(path, Settings())[1]
    assert len([line for line in warnings if " matches nothing: the key of a queue has no " in line]) == told


def by_scheme(uri: CrawlUri) -> str:
    """An assignment policy whose keys are no hosts."""
    return uri.url.partition(":")[0] + "://"
