"""The floods at the size of CI. At full size: `python -m tests.fuzz floods`."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz.floods import FLOODS, measure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much anonymous memory there is")


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_taken_in_bounded_memory(name: str) -> None:
    figures = measure(name, FLOODS[name].small)
    assert figures.number == FLOODS[name].small
    assert figures.mib < FLOODS[name].small_limit
