from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.rules import busiest


def test_half_are_those_that_spent_most_and_half_those_that_fetched_most() -> None:
    counts = {1: (100, 1), 2: (90, 1), 3: (5, 50), 4: (4, 40), 5: (1, 1)}
    assert list(busiest.busiest(counts, 4)) == [1, 2, 3, 4]


def test_all_stay_if_there_is_room() -> None:
    counts = {1: (1, 1), 2: (3, 1)}
    assert busiest.busiest(counts, 4) == counts


@given(st.lists(st.integers(0, 60), max_size=400))
def test_counts_are_too_low_by_what_is_said_at_the_most(fetched: list[int]) -> None:
    room = 8
    counts: busiest.Counts = {}
    missed = 0
    for queue_id in fetched:
        if queue_id not in counts and len(counts) >= room:
            counts, low = busiest.without_smallest(counts, room)
            missed += low
        spent, attempts = counts.get(queue_id, (0, 0))
        counts[queue_id] = spent + 1, attempts + 1
    assert len(counts) <= room
    for queue_id, times in Counter(fetched).items():
        assert times - missed <= counts.get(queue_id, (0, 0))[1] <= times


def test_periods_are_added_up_with_what_each_may_have_missed() -> None:
    counts, low = busiest.merged([({1: (5, 2), 2: (1, 1)}, 3), ({1: (1, 1)}, 0)])
    assert counts == {1: (6, 3), 2: (1, 1)}
    assert low == 3
    full = dict.fromkeys(range(busiest.MOST), (7, 4))
    assert busiest.merged([(full, 0), ({5: (1, 1)}, 2)])[1] == 4 + 2
