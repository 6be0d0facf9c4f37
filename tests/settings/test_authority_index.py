"""Which overrides match an authority, and how few are compared with it."""

from __future__ import annotations

import pytest

from budgetfrontier.settings.authority_index import AuthorityIndex
from budgetfrontier.settings.matching import Match, parse_match

PATTERNS = (
    "host:www.a.test",
    "domain:a.test",
    "queue:q",
    "queues:q,R.TEST.",
    "host:*.a.test",
    "queue:q*",
    "surt:(test,a,",
    "surt:(test,a,w",
    "surt:https://(test,a,www,)/",
    "surt:(test,a,www,)/path",
    "surt:http://(",
    "surt:(127.0.0.1)/path",
)


@pytest.mark.parametrize(
    ("prefix", "queue", "matching", "paths"),
    [
        ("https://www.a.test", "other", {0, 1, 4, 6, 7, 8}, {9, 11}),
        ("http://www.a.test", "q", {0, 1, 2, 3, 4, 5, 6, 7, 10}, {9, 11}),
        ("http://a.test", "r.test", {1, 3, 6, 10}, {11}),
        ("https://b.test", "none", set(), {11}),
        ("https://u:p@www.a.test:81", "none", {0, 1, 4, 6, 7}, {9, 11}),
        ("https://www.a.test.", "none", {0, 1, 4, 6, 7, 8}, {9, 11}),
        ("https://127.0.0.1", "none", set(), {9, 11}),
    ],
)
def test_what_matches_is_found_in_order(prefix: str, queue: str, matching: set[int], paths: set[int]) -> None:
    index = AuthorityIndex()
    for number, pattern in enumerate(PATTERNS):
        index.add(number, parse_match(pattern))
    found, near = index.find(prefix, queue)
    assert found == tuple(sorted(matching))
    assert {number for number, _ in near} <= paths, "others cannot match"
    assert {number for number, match in near if match.matches(prefix + "/path", queue)} == {
        number for number in paths if parse_match(PATTERNS[number]).matches(prefix + "/path", queue)
    }


def test_surt_prefixes_are_compared_at_and_below_their_domains_only() -> None:
    index, compared = AuthorityIndex(), list[str]()

    def noting(match: Match) -> Match:
        def test(subject: str) -> bool:
            compared.append(match.text)
            return bool(match.test(subject))

        return Match(match.kind, match.text, test, match.by_authority, prefixes=match.prefixes)

    for n in range(1000):
        index.add(n, noting(parse_match(f"surt:(test,a{n},")))
    assert index.find("https://www.a7.test", "q") == ((7,), [])
    assert index.find("https://a.test", "q") == ((), [])
    assert compared == ["surt:(test,a7,"]
