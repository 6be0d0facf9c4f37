"""The history of a queue: counts that keep their ratios, and means that follow what happens."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.rules import queue_history
from budgetfrontier.rules.queue_history import DISREGARDED, FAILURE, LANDED, LARGEST, MOST, NEW, RETRY, SUCCESS, count
from budgetfrontier.storage import keys

attempts = st.tuples(
    st.sampled_from((SUCCESS, RETRY, FAILURE, DISREGARDED, LANDED)),
    st.none() | st.floats(0, 1e9),
    st.integers(0, 10**6),
    st.integers(0, 100),
    st.integers(0, 1 << 62),
)


@given(st.lists(attempts, max_size=40))
def test_any_attempts_leave_a_row_that_is_stored_as_it_is_in_sixteen_bytes(found: list[Any]) -> None:
    row = [*NEW]
    for kind, seconds, links, new, size in found:
        count(row, kind, seconds, links, min(new, links), size)
        stored = keys.history.pack(*row)
        assert len(stored) == 16 and keys.history.unpack(stored)[:4] == tuple(row[:4])
        assert keys.history.pack(*keys.history.unpack(stored)) == stored
        assert queue_history.objection(tuple(row)) is None


def test_counts_are_halved_together_before_one_is_too_large() -> None:
    row = [MOST, 101, 50, 1, *[1.0] * 4]
    count(row, RETRY, None, 0, 0, 0)
    assert row[:4] == [MOST, 102, 50, 1]
    count(row, SUCCESS, None, 0, 0, 0)
    assert row[:4] == [MOST // 2 + 1, 51, 25, 0]


def test_means_are_exact_at_first_and_follow_a_change_later() -> None:
    row = [*NEW]
    for links in (4, 8, 0, 12):
        count(row, SUCCESS, 2.0, links, links // 4, 2048)
    assert row[4:] == [2.0, 6.0, 1.5, 2.0]
    for _ in range(1000):
        count(row, SUCCESS, 0.5, 60, 3, 10 * 1024)
    assert all(math.isclose(mean, x, rel_tol=0.04) for mean, x in zip(row[4:], (0.5, 60, 3, 10), strict=True))


def test_what_is_too_large_counts_as_the_largest() -> None:
    row = [*NEW]
    count(row, SUCCESS, 1e12, 10**9, 10**9, 1 << 62)
    assert row[4:] == [LARGEST] * 4


def test_the_duration_of_a_download_that_has_landed_counts_once_with_its_attempt() -> None:
    row = [*NEW]
    for seconds in (1.0, 3.0):
        count(row, LANDED, seconds, 0, 0, 0)
        count(row, SUCCESS, None, 0, 0, 0)
    assert row[4] == 2.0
