from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.rules import busiest
from budgetfrontier.rules.busiest import Amounts, Busy

charges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=120)


def test_half_are_those_that_spent_most_and_half_those_that_fetched_most() -> None:
    counts = {1: (100, 1), 2: (90, 1), 3: (5, 50), 4: (4, 40), 5: (1, 2), 6: (3, 1)}
    found = busiest.busiest(counts, 4)
    assert list(found.counts) == [1, 2, 3, 4]
    assert found.others == (3, 2), "what the largest of the others have, each"


def test_all_stay_if_there_is_room() -> None:
    counts = {1: (1, 1), 2: (3, 1)}
    assert busiest.busiest(counts, 4) == Busy(counts)


def counted(charges: list[tuple[int, int]], room: int) -> tuple[busiest.Counts, Amounts]:
    counts: busiest.Counts = {}
    low = busiest.NOTHING
    for queue_id, cost in charges:
        if queue_id not in counts and len(counts) >= room:
            counts, dropped = busiest.without_smallest(counts, room)
            low = busiest.plus(low, dropped)
        counts[queue_id] = busiest.plus(counts.get(queue_id, busiest.NOTHING), (cost, 1))
    assert len(counts) <= room
    return counts, low


def truth(charges: list[tuple[int, int]]) -> dict[int, Amounts]:
    sums: dict[int, Amounts] = defaultdict(lambda: busiest.NOTHING)
    for queue_id, cost in charges:
        sums[queue_id] = busiest.plus(sums[queue_id], (cost, 1))
    return sums


@given(charges)
def test_counts_are_too_low_by_what_is_said_at_the_most_and_never_too_high(charges: list[tuple[int, int]]) -> None:
    counts, low = counted(charges, 8)
    for queue_id, true in truth(charges).items():
        for known, sure, missed in zip(counts.get(queue_id, busiest.NOTHING), true, low, strict=True):
            assert sure - missed <= known <= sure


@given(st.lists(charges, max_size=4))
def test_what_periods_have_together_is_within_the_bounds_that_are_given(
    periods: list[list[tuple[int, int]]],
) -> None:
    parts = []
    for one in periods:
        counts, low = counted(one, 8)
        kept = busiest.busiest(counts, 4)
        parts.append(Busy(kept.counts, low, busiest.plus(low, kept.others)))
    found, most = busiest.merged(parts, 4)
    again, again_most = busiest.merged([found], 4)  # as if it was stored, for a day, and read
    assert len(found.counts) <= 4
    for queue_id, true in truth([charge for one in periods for charge in one]).items():
        for busy, highest in (found, most), (again, again_most):
            least = busy.counts.get(queue_id, busiest.NOTHING)
            limit = highest.get(queue_id, busy.others)
            assert all(a <= b <= c for a, b, c in zip(least, true, limit, strict=True)), queue_id


def test_periods_in_which_all_is_known_are_added_up_exactly() -> None:
    found, most = busiest.merged([Busy({1: (5, 2), 2: (1, 1)}), Busy({1: (1, 1)})])
    assert found == Busy({1: (6, 3), 2: (1, 1)})
    assert most == found.counts
