"""For how long a host keeps its address."""

from __future__ import annotations

from budgetfrontier.rules.host_addresses import VALID_FOR, replaces


def test_an_address_is_kept_as_long_as_it_is_valid() -> None:
    assert replaces(None, 5.0)
    assert [replaces(100, 100 + passed) for passed in (-50.0, 0.0, VALID_FOR - 1, VALID_FOR)] == [False] * 3 + [True]
