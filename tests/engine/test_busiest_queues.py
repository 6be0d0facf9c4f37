"""The queues that spent and fetched most in an hour."""

from __future__ import annotations

import pytest

from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.rules import busiest
from budgetfrontier.rules.busiest import Busy


def charge(counted: BusiestQueues, *attempts: tuple[int, int]) -> None:
    """Charge attempts, given as queue id and cost."""
    for queue_id, cost in attempts:
        counted.charged.add(cost, queue_id)


def test_what_a_queue_is_charged_is_added_up() -> None:
    counted = BusiestQueues()
    charge(counted, (1, 5), (2, 0), (1, 7), (1, 5))
    counted.settle()
    counted.penalized(2, 10)
    charge(counted, (1, 1))
    assert counted.top() == Busy({1: (18, 4), 2: (10, 1)})


def test_every_attempt_is_counted_however_many_a_commit_has() -> None:
    counted = BusiestQueues()
    charge(counted, *((n % 7, 2) for n in range(70_000)))
    counted.settle()
    assert counted.top() == Busy(dict.fromkeys(range(7), (20_000, 10_000)))


def test_memory_is_bounded_and_what_is_missed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busiest, "ROOM", 10)
    counted = BusiestQueues()
    for queue_id in range(100):
        charge(counted, *[(queue_id, 3)] * (20 if queue_id == 3 else 2))
        counted.settle()
        assert len(counted._counts) + len(counted.charged) <= 10  # all that it holds
    counts, low, others = counted.top()
    assert counts[3] == (60, 20)
    assert 2 <= low[1] <= 2 * 99
    assert low[0] == 3 * low[1] and others == low, "those that were dropped may have as much"


def test_an_hour_goes_on_from_what_was_stored() -> None:
    counted = BusiestQueues()
    counted.start(Busy({1: (5, 2)}, (1, 1), (4, 3)))
    charge(counted, (1, 1), (2, 1))
    assert counted.top() == Busy({1: (6, 3), 2: (1, 1)}, (4, 3), (4, 3)), "queue 2 may have been one of the others"
