"""Sorting and adding up with bounded memory: the results are those of doing it in memory."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from budgetfrontier.reports.spill import Sorter, Sums, largest_first


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 5000])
def test_what_is_spilled_comes_out_sorted(count: int) -> None:
    choose = random.Random(count)
    items = [(choose.randbytes(2), choose.randrange(9), None if choose.random() < 0.1 else "x") for _ in range(count)]
    sorter = Sorter(most=10)
    for item in items:
        sorter.add((*item[:2], item[2] or ""))
        assert len(sorter._items) < 10
    assert list(sorter) == sorted((*item[:2], item[2] or "") for item in items)


@pytest.mark.parametrize("keys", [1, 7, 300])
def test_sums_are_right_however_many_keys_there_are(keys: int) -> None:
    choose = random.Random(keys)
    expected: Counter[bytes] = Counter()
    sums = Sums(2, most=8)
    for _ in range(2000):
        key = b"%d" % choose.randrange(keys)
        amounts = sums.of(key)
        amounts[0] += 1
        amounts[1] += 5
        expected[key] += 1
        assert len(sums._sums) <= 8
    assert list(sums) == [(key, count, 5 * count) for key, count in sorted(expected.items())]


def test_the_largest_come_first_and_equal_ones_by_key() -> None:
    items = [(b"b", 2), (b"a", 2), (b"c", 9), (b"d", 1)]
    expected = [(b"c", 9), (b"a", 2), (b"b", 2), (b"d", 1)]
    assert list(largest_first(items, 1)) == expected
    assert list(largest_first(items, 1, 2)) == expected[:2]
