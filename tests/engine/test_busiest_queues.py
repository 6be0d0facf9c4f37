"""The queues that spent and fetched most in an hour."""

from __future__ import annotations

import pytest

from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.rules import busiest
from budgetfrontier.rules.busiest import Busy
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.store import keys


def key(queue_id: int, cost: int, ordinal: int = 1) -> bytes:
    """The key of a pending URI."""
    return keys.pending.pack(queue_id, NORMAL, PRIORITY_ZERO, cost, ordinal)


def test_what_a_queue_is_charged_is_added_up() -> None:
    counted = BusiestQueues()
    counted.charged += [key(1, 5, 1), key(2, 0, 2), key(1, 7, 3), key(1, 5, 4)]
    counted.settle()
    counted.penalized(2, 10)
    counted.charged += [key(1, 1, 5)]
    assert counted.top() == Busy({1: (18, 4), 2: (10, 1)})


def test_every_attempt_is_counted_however_many_a_commit_has() -> None:
    counted = BusiestQueues()
    counted.charged += [key(n % 7, 2, n) for n in range(70_000)]
    counted.settle()
    assert counted.top() == Busy(dict.fromkeys(range(7), (20_000, 10_000)))


def test_memory_is_bounded_and_what_is_missed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busiest, "ROOM", 10)
    counted = BusiestQueues()
    for queue_id in range(100):
        counted.charged += [key(queue_id, 3, n) for n in range(20 if queue_id == 3 else 2)]
        counted.settle()
        assert len(counted._counts) + len(counted._by_cost) <= 10  # all that it holds
    counts, low, others = counted.top()
    assert counts[3] == (60, 20)
    assert 2 <= low[1] <= 2 * 99
    assert low[0] == 3 * low[1] and others == low, "those that were dropped may have as much"


def test_an_hour_goes_on_from_what_was_stored() -> None:
    counted = BusiestQueues()
    counted.start(Busy({1: (5, 2)}, (1, 1), (4, 3)))
    counted.charged += [key(1, 1), key(2, 1)]
    assert counted.top() == Busy({1: (6, 3), 2: (1, 1)}, (4, 3), (4, 3)), "queue 2 may have been one of the others"
