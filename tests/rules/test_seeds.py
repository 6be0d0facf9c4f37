"""Which URIs are seeds, and where they come from."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive
from budgetfrontier.rules.seeds import MOST_REDIRECTS, is_seed, origin_of

URL = "http://a.test/"


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ({}, True),
        ({"directive": Directive.HIGH}, True),
        ({"directive": Directive.NORMAL}, False),
        ({"hops": "R" * MOST_REDIRECTS}, True),
        ({"hops": "R" * (MOST_REDIRECTS + 1)}, False),
        ({"hops": "E"}, False),
        ({"hops": "LR"}, False),
        ({"hops": "P", "directive": Directive.HIGHEST}, False),
    ],
)
def test_seeds_come_before_links_and_only_redirects_lead_to_them(fields: dict[str, Any], is_one: bool) -> None:
    assert is_seed(CrawlUri(URL, **({"directive": Directive.MEDIUM} | fields))) is is_one


@pytest.mark.parametrize(
    ("fields", "origin"),
    [({}, "scheduled"), ({"meta": {"seed": URL}}, "imported"), ({"hops": "R", "meta": {"seed": URL}}, "redirected")],
)
def test_where_a_seed_comes_from(fields: dict[str, Any], origin: str) -> None:
    assert origin_of(CrawlUri(URL, **fields)) == origin


def test_a_redirect_among_links_makes_no_seed() -> None:
    for hops in ("RL", "RLR", "X", "r"):
        assert not is_seed(CrawlUri(URL, directive=Directive.MEDIUM, hops=hops))
