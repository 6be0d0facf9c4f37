"""The result of several simulations: the middle one, with the ends of all."""

from __future__ import annotations

from typing import Any

from budgetfrontier.rules.simulation import Simulated, middle

_COUNTED = ("fetches", "unsure", "succeeded", "failed", "disregarded", "spent", "discovered", "size", "queued")


def test_the_middle_of_draws_has_the_ends_of_all() -> None:
    figures: dict[str, Any] = dict.fromkeys(_COUNTED, 0) | {"ended_by": "finished"}
    found = middle([Simulated(**figures, seconds=seconds) for seconds in (3.0, 1.0, 2.0)])
    assert found.seconds == 2.0
    assert found.draws == [(1.0, 0), (2.0, 0), (3.0, 0)]
