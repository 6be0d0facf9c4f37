"""When snapshots are taken."""

from __future__ import annotations

from itertools import pairwise

from budgetfrontier.cluster.snapshots.snapshot_schedule import Schedule


def test_snapshots_are_spread_over_the_time_between_two() -> None:
    schedule, positions = Schedule(100.0), dict.fromkeys(range(20), 5)
    taken: list[float] = []
    for second in range(101):
        while (number := schedule.next(positions, float(second))) is not None:
            schedule.taken(number, 5, float(second))
            taken.append(second)
    assert len(taken) == 20
    assert all(later - earlier <= 10 for earlier, later in pairwise(taken))


def test_only_what_has_changed_is_taken_and_what_has_failed_is_tried_again_soon() -> None:
    schedule = Schedule(100.0)
    assert schedule.next({0: 5}, 0.0) == 0
    schedule.failed(0, 0.0)
    assert schedule.next({0: 5}, 24.0) is None
    assert schedule.next({0: 5}, 25.0) == 0
    schedule.taken(0, 7, 25.0)
    assert schedule.next({0: 7}, 125.0) is None
    assert schedule.next({0: 8}, 126.0) is None  # it was looked at a second before
    assert schedule.next({0: 8}, 225.0) == 0
    assert schedule.next({}, 300.0) is None  # it went to another worker, and has come back
    assert schedule.next({0: 1}, 301.0) == 0
    schedule.taken(3, 9, 301.0)  # which went away meanwhile
