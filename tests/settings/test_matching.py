"""Patterns: which URIs and queues each kind picks, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.matching import disjoint, match_text, parse_match, queues_match
from tests.settings.test_overrides import effective


@pytest.mark.parametrize(
    ("match", "hits", "misses"),
    [
        ("*", ["http://a.test/", "https://[::1]:8080/x"], []),
        (
            "domain:example.org",
            [
                "http://example.org/",
                "https://www.example.org:81/a",
                "http://u:p@a.b.example.org/",
                "http://example.org./",
            ],
            ["http://notexample.org/", "http://example.org.evil.test/", "http://example.com/?http://example.org/"],
        ),
        ("domain:*.Example.ORG.", ["http://example.org/", "http://a.example.org/"], ["http://example.com/"]),
        ("domain:bücher.example", ["http://www.xn--bcher-kva.example/"], ["http://bucher.example/"]),
        ("domain:test", ["http://a.test/"], ["http://test.example/"]),
        ("host:www.example.org", ["http://www.example.org/", "https://www.example.org:8443/"], ["http://example.org/"]),
        ("host:*.example.org", ["http://a.example.org/", "http://a.b.example.org/"], ["http://example.org/"]),
        ("host:shop?.test", ["http://shop1.test/"], ["http://shop.test/", "http://shop10.test/"]),
        ("host:[::1]", ["http://[::1]:8080/"], ["http://[::2]/"]),
        ("host:127.0.0.1", ["http://127.0.0.1:8080/"], ["http://127.0.0.2/"]),
        ("regex:[?&]sid=", ["http://a.test/?sid=1", "http://a.test/?b&sid=2"], ["http://a.test/sid=1"]),
        ("surt:(org,example,", ["http://example.org/", "https://www.example.org/x"], ["http://example.com/"]),
        ("surt:(org,example,)/a", ["http://example.org/a", "https://example.org/ab"], ["http://www.example.org/a"]),
        ("surt:https://(org,example,", ["https://example.org/"], ["http://example.org/"]),
        ("surt:http://(org,example,)/", ["http://example.org/a"], ["https://example.org/a", "http://a.example.org/"]),
        ("queue:example.*", ["http://x.test/ example.org"], ["http://example.org/ org,example"]),
        ("queues:a.test, b.test:81", ["http://x.test/ a.test", "http://x.test/ b.test:81"], ["http://a.test/ b.test"]),
        ("queue:b.test:80", ["http://b.test/ b.test", "https://b.test:80/ b.test:80"], ["http://b.test:81/ b.test:81"]),
        ("queues:[::1]", ["http://x.test/ [::1]"], ["http://[::1]/ a"]),
        ('queues:["org,a,","b*"]', ["http://x.test/ org,a,", "http://x.test/ b*"], ["http://x.test/ org", "u://x/ b"]),
        ("queue:example.org:8080", ["http://x.test/ example.org:8080"], ["http://example.org:8080/ example.org"]),
    ],
)
def test_matches(match: str, hits: list[str], misses: list[str]) -> None:
    found = effective((match, {"precedence": 1}))
    pattern = parse_match(match)
    for subject, hit in [*((url, True) for url in hits), *((url, False) for url in misses)]:
        href, _, queue = subject.partition(" ")
        for _ in range(2):  # computed, then remembered
            assert (found.for_uri(href, queue).precedence == 1) is hit, subject
        assert pattern.matches(href, queue) is hit


@pytest.mark.parametrize(
    "match",
    ["", "example.org", "domain:", "domain:http://example.org/", "host:example.org/a", "domain:exa mple", "regex:(",
     "x:y", "surt:example.org", "surt:ftp://(org,", "host:example.org:80", "domain:a@b.test", None, 5,
     "queues:", "queues:a,", 'queues:["a", 1]', 'queues:["a"'],
)  # fmt: skip
def test_what_is_no_match(match: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_match(match)
    assert str(match) in caught.value.problems[0]


def test_what_is_decided_by_the_authority_alone() -> None:
    for match in ("*", "domain:a.test", "host:*.test", "queue:*", "surt:(org,", "surt:http://(org,example,)/"):
        assert parse_match(match).by_authority
    for match in ("regex:x", "surt:(org,example,)/a"):
        assert not parse_match(match).by_authority


@pytest.mark.parametrize("names", [["a.test"], ["a.test", "b.test:80"], ["org,a,", "org,b,"], [" a"], ['["x'], ["ä"]])
def test_a_list_of_queues_is_written_as_a_match(names: list[str]) -> None:
    assert parse_match(queues_match(names)).keys == tuple(names)
    assert match_text({"queues": names}) == queues_match(names)


@pytest.mark.parametrize("value", [{}, {"queues": []}, {"queues": "a"}, {"queues": [1]}, {"queues": ["a"], "b": 1}])
def test_what_is_no_list_of_queues(value: Any) -> None:
    with pytest.raises(SettingsError, match="queues"):
        match_text(value)


_PATTERNS = [
    "*",
    "regex:b",
    "domain:b.test",
    "domain:a.b.test",
    "domain:test",
    "domain:ab.test",
    "host:b.test",
    "host:a.b.test",
    "host:*.test",
    "host:a.*",
    "host:*b.test",
    "queue:b.test",
    "queue:B.test",
    "queue:a.*",
    "queues:b.test,c.test",
    "queues:c.test,d.test",
    "surt:(test,b,",
    "surt:(test,b,)/x",
    "surt:http://(test,b,",
    "surt:https://(test,b,a,)/",
    "surt:(test,b,:8080)/",
    "surt:(test,",
    "surt:(org,",
    "domain:127.0.0.1",
    "surt:(127.0.0.1)/",
    "host:127.0.0.1",
    "label:one",
    "label:two",
]
_URIS = [
    f"{scheme}://{host}{rest}"
    for scheme in ("http", "https")
    for host in ("b.test", "a.b.test", "ab.test", "c.test", "x.org", "127.0.0.1")
    for rest in ("/", "/x/y", ":8080/")
]
_QUEUES = ("a.test", "b.test", "c.test", "d.test", "a.b.test", "x.org")


@pytest.mark.parametrize("one", _PATTERNS)
def test_patterns_that_are_disjoint_have_no_uri_in_common(one: str) -> None:
    mine = parse_match(one)
    for other in map(parse_match, _PATTERNS):
        if disjoint(mine, other):
            assert not any(
                mine.matches(uri, queue, label) and other.matches(uri, queue, label)
                for uri in _URIS
                for queue in _QUEUES
                for label in (None, "one")
            )
        assert disjoint(mine, other) == disjoint(other, mine)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("queue:a.test", "queue:b.test"),
        ("queue:a.test", "queues:b.test,c.test"),
        ("queue:a.*", "queue:b.test"),
        ("domain:a.test", "domain:b.test"),
        ("domain:a.test", "host:b.test"),
        ("host:a.*", "host:b.test"),
        ("surt:(test,a,", "surt:(test,b,"),
        ("surt:http://(test,a,", "surt:https://(test,a,"),
        ("surt:(test,a,)/", "domain:b.test"),
        ("surt:(test,a,)/", "host:www.a.test"),
    ],
)
def test_patterns_of_other_hosts_or_queues_are_disjoint(one: str, other: str) -> None:
    assert disjoint(parse_match(one), parse_match(other))
    assert not disjoint(parse_match(one), parse_match(one))


def test_a_label_matches_the_uris_that_have_it_and_no_others() -> None:
    found, pattern = effective(("label:blogs", {"precedence": 1})), parse_match("label:blogs")
    for label, hit in (("blogs", True), ("Blogs", False), ("", False), (None, False)):
        for _ in range(2):  # computed, then remembered
            assert (found.for_uri("http://a.test/", "a.test", label).precedence == 1) is hit
        assert pattern.matches("http://a.test/", "a.test", label) is hit
