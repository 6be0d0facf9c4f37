"""The order of URIs in a queue."""

from __future__ import annotations

from budgetfrontier.rules import (
    uri_order,
)


def test_lifo_reverses_arrivals_and_the_ordinal_is_found_again() -> None:
    ordinals = [0, 1, 2, 1_000_000, 1 << 48]
    assert [uri_order.arrival(ordinal, lifo=False) for ordinal in ordinals] == ordinals
    reversed_ = [uri_order.arrival(ordinal, lifo=True) for ordinal in ordinals]
    assert reversed_ == sorted(reversed_, reverse=True)
    assert [uri_order.ordinal_of(arrival) for arrival in reversed_] == ordinals
    assert [
        ordinal ^ uri_order.arrival(0, lifo=True) for ordinal in ordinals
    ] == reversed_  # as admission writes it out
