"""The built-in precedence policies of URIs."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri, PolicyError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.policies.uri_precedence import UriBase, UriCost, UriHops, UriPreloaded

URI = CrawlUri("https://a.test/", hops="LRELX")


def test_only_links_count_unless_all_hops_do() -> None:
    assert UriHops()(URI) == 3
    assert UriHops(base=0)(URI) == 2
    assert UriHops(navlinks_only=False)(URI) == 6


def test_the_base_is_1_and_the_cost_is_no_precedence_of_its_own() -> None:
    assert (UriBase()(URI), UriBase(base=9)(URI), UriCost()(URI)) == (1, 9, None)


def test_a_value_of_a_file_is_added_to_the_base_or_the_default_applies() -> None:
    policy = UriPreloaded(file="x", base=5, default="hops")
    assert policy(URI) == 3, "nothing was read"
    policy.value_of = lambda file, url: {"https://a.test/": -2, "https://a.test/low": -9}.get(url)
    found = [policy(CrawlUri(f"https://a.test/{path}")) for path in ("", "low", "none")]
    assert found == [3, 0, 1]
    assert policy.spec_with("/y") == {"preloaded": {"file": "/y", "base": 5, "default": "hops"}}


@pytest.mark.parametrize("name", ["BaseUriPrecedencePolicy", "org.archive.crawler.frontier.precedence.Hops{}"])
def test_heritrix_s_names_are_known(name: str) -> None:
    assert plugins.is_builtin("uri_precedence", name.format("UriPrecedencePolicy"))


@pytest.mark.parametrize(
    "spec",
    [
        *({"base": {"base": base}} for base in (-1, 128, True, "3")),
        {"hops": {"base": 1.5}},
        {"hops": {"navlinks_only": "yes"}},
        {"hop": {}},
        "preloaded",
        {"preloaded": {"file": 3}},
        *(
            {"preloaded": {"file": "x", "default": default}}
            for default in ("mine:policy", "none", {"preloaded": {"file": "y"}})
        ),
        {"preloaded": {"file": "x", "default": {"hops": {"base": 128}}}},
        {"preloaded": {"file": "x", "base": -1}},
    ],
)
def test_options_that_make_no_sense_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        plugins.resolve("uri_precedence", spec)
