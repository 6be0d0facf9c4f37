"""Scope rules."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.crawl.scope import Scope
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.schema import ScopeSettings


def scope(*seeds: str, **settings: Any) -> Scope:
    made = Scope(ScopeSettings(**settings))
    for seed in seeds or ("https://example.org/",):
        made.add_seed(seed)
    return made


@pytest.mark.parametrize(
    ("accept", "url", "inside"),
    [
        ("seed-hosts", "https://example.org/a", True),
        ("seed-hosts", "http://www.example.org:8080/a", True),
        ("seed-hosts", "https://blog.example.org/", False),
        ("seed-hosts", "https://example.org.evil.test/", False),
        ("seed-domains", "https://blog.example.org/", True),
        ("seed-domains", "https://example.net/", False),
        ("domain:example.net", "https://a.example.net/", True),
        ("host:*.example.net", "https://example.net/", False),
        ("surt:(net,example,", "https://a.example.net/", True),
        ("regex:/news/", "https://any.test/news/1", True),
        ("all", "https://any.test/", True),
    ],
)
def test_accept(accept: str, url: str, inside: bool) -> None:
    assert (scope(accept=(accept,)).objection(CrawlUri(url, hops="L")) is None) is inside


def test_reject_wins_and_says_which_rule() -> None:
    rules = scope(accept=("all",), reject=(r"regex:\.(zip|exe)$",))
    assert rules.objection(CrawlUri("https://example.org/a.zip", hops="L")) == r"reject regex:\.(zip|exe)$"
    assert rules.objection(CrawlUri("https://example.org/a.zip?x", hops="L")) is None


def test_hops_count_without_prerequisites() -> None:
    rules = scope(max_hops=2)
    assert rules.objection(CrawlUri("https://example.org/", hops="LE")) is None
    assert rules.objection(CrawlUri("https://example.org/robots.txt", hops="LEP")) is None
    assert rules.objection(CrawlUri("https://example.org/", hops="LLL")) == "max_hops"
    assert scope(max_hops=-1).objection(CrawlUri("https://example.org/", hops="L" * 99)) is None


def test_where_a_seed_redirects_to_counts_as_a_seed() -> None:
    rules = scope()
    assert rules.objection(CrawlUri("https://moved.test/", hops="R")) is None
    assert rules.objection(CrawlUri("https://moved.test/", hops="LR")) == "not accepted"
    child = CrawlUri("https://moved.test/a", hops="RL", meta={"seed": "https://moved.test/"})
    assert rules.objection(child) is None
    child.meta = None
    assert rules.objection(child) == "not accepted"
