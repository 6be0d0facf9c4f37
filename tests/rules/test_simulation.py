"""The result of several simulations: the middle one, with the ends of all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from budgetfrontier.rules.simulation import Simulated, likely_ends, middle

_COUNTED = ("fetches", "unsure", "succeeded", "failed", "disregarded", "spent", "discovered", "size", "queued")


def test_the_middle_of_draws_has_the_ends_of_all() -> None:
    figures: dict[str, Any] = dict.fromkeys(_COUNTED, 0) | {"ended_by": "finished"}
    found = middle([Simulated(**figures, seconds=seconds) for seconds in (3.0, 1.0, 2.0)])
    assert found.seconds == 2.0
    assert found.draws == [(1.0, 0), (2.0, 0), (3.0, 0)]


def test_nine_of_ten_draws_of_ends_that_double_are_between_the_likely_ones() -> None:
    random, held = Random(1), dict.fromkeys((2, 3, 10), 0)
    for number in held:
        for _ in range(2000):
            *draws, other = (random.lognormvariate(10.0, 1.0) for _ in range(number + 1))
            least, most = likely_ends([(seconds, 1) for seconds in draws]) or (0.0, 0.0)
            held[number] += least <= other <= most
    assert [round(within / 2000, 1) for within in held.values()] == [0.9, 0.9, 0.9]


def test_a_single_draw_tells_no_range_and_alike_ones_none_but_themselves() -> None:
    assert likely_ends([(3600.0, 1)]) is None
    assert likely_ends([(3600.0, 1)] * 3) == pytest.approx((3600.0, 3600.0))
    assert likely_ends([(0.0, 1), (0.0, 1)]) == pytest.approx((1.0, 1.0))
