"""The cost of a URI: given with it, or by the policy, within bounds."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.rules import charges


@pytest.mark.parametrize(
    ("given", "cost"), [(None, None), (0, 0), (7, 7), (-1, 0), (10**30, charges.MAX_COST), (True, 1)]
)
def test_a_cost_given_with_a_uri_is_bounded(given: int | None, cost: int | None) -> None:
    assert charges.given_cost(CrawlUri("https://a.test/", cost=given)) == cost


def test_a_cost_is_stored_in_32_bits() -> None:
    assert charges.bounded_cost(charges.MAX_COST + 1) == charges.MAX_COST == 2**32 - 1
