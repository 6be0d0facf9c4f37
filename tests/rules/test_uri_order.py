"""The order of URIs in a queue: by directive, priority, cost and arrival."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlUri
from budgetfrontier.core.model import Directive
from budgetfrontier.rules import charges, uri_order
from budgetfrontier.storage import keys

LARGEST = (1 << 31) - 1
Uri = tuple[Directive, int, int, int]
numbers = st.tuples(
    st.sampled_from(Directive), st.integers(-9, 9) | st.integers(), st.integers(0, charges.MAX_COST), st.integers(0, 9)
)


def in_words(uri: Uri) -> tuple[int, int, int, int]:
    """Sort as the contract says: directive, higher priority first, cost, arrival."""
    directive, priority, cost, arrival = uri
    return directive, -min(max(priority, -LARGEST), LARGEST + 1), cost, arrival


@given(st.lists(numbers))
def test_packed_ranks_sort_by_directive_higher_priority_cost_and_arrival(uris: list[Uri]) -> None:
    def packed(uri: Uri) -> bytes:
        return keys.rank.pack(*uri_order.rank(*uri))

    assert [in_words(uri) for uri in sorted(uris, key=packed)] == sorted(map(in_words, uris))


@pytest.mark.parametrize("priority", [0, 1, -1, 1000, -1000, LARGEST, -LARGEST])
def test_a_priority_is_found_again_in_what_it_is_sorted_by(priority: int) -> None:
    assert uri_order.priority_of(uri_order.inverted(priority)) == priority


def test_higher_priorities_sort_first_and_are_clamped() -> None:
    priorities = [-(1 << 40), -LARGEST - 1, -7, 0, 1, LARGEST + 1, 1 << 40]
    inverted = [uri_order.inverted(priority) for priority in priorities]
    assert inverted == sorted(inverted, reverse=True) and len(set(inverted)) == len(priorities) - 2


def test_a_url_alone_ranks_as_a_uri_that_asks_for_nothing() -> None:
    uri = CrawlUri("https://a.test/")
    assert uri_order.rank(uri.directive, uri.priority, 7, 9) == (uri_order.NORMAL, uri_order.PRIORITY_ZERO, 7, 9)


def test_lifo_reverses_arrivals_and_the_ordinal_is_found_again() -> None:
    ordinals = [0, 1, 2, 1_000_000, 1 << 48]
    assert [uri_order.arrival(ordinal, lifo=False) for ordinal in ordinals] == ordinals
    reversed_ = [uri_order.arrival(ordinal, lifo=True) for ordinal in ordinals]
    assert reversed_ == sorted(reversed_, reverse=True)
    assert [uri_order.ordinal_of(arrival) for arrival in reversed_] == ordinals
    assert [
        ordinal ^ uri_order.arrival(0, lifo=True) for ordinal in ordinals
    ] == reversed_  # as admission writes it out


def test_a_uri_asked_for_again_is_never_made_to_wait_longer() -> None:
    normal, high = int(Directive.NORMAL), int(Directive.HIGH)
    now = uri_order.rank(normal, 5, 7, 9)
    assert uri_order.more_urgent(now, high, 5) == uri_order.rank(high, 5, 7, 9)
    assert uri_order.more_urgent(now, normal, 6) == uri_order.rank(normal, 6, 7, 9)
    assert uri_order.more_urgent(now, high, 4) == uri_order.rank(high, 4, 7, 9), "the directive counts first"
    assert uri_order.more_urgent(now, normal, 5) is None
    assert uri_order.more_urgent(now, normal, 4) is None
    assert uri_order.more_urgent(uri_order.rank(high, 5, 7, 9), normal, 6) is None


def test_a_priority_beyond_32_bits_is_the_highest_or_the_lowest() -> None:
    assert uri_order.inverted(1 << 31) == uri_order.inverted(1 << 40) == 0
    assert uri_order.inverted((1 << 31) - 1) == 1
    lowest = (1 << 32) - 1
    assert (
        uri_order.inverted(-(1 << 31) + 1) == uri_order.inverted(-(1 << 31)) == uri_order.inverted(-(1 << 40)) == lowest
    )
