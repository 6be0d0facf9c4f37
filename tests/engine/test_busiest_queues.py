"""The queues that spent and fetched most in an hour."""

from __future__ import annotations

import pytest

from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.rules import busiest
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
    assert (counted.top(), counted.missed) == ({1: (18, 4), 2: (10, 1)}, 0)


def test_memory_is_bounded_and_what_is_missed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busiest, "ROOM", 10)
    counted = BusiestQueues()
    for queue_id in range(100):
        counted.charged += [key(queue_id, 1, n) for n in range(20 if queue_id == 3 else 2)]
        counted.settle()
        assert len(counted._counts) + len(counted._by_cost) <= 10  # all that it holds
    assert counted.top()[3] == (20, 20)
    assert 2 <= counted.missed <= 2 * 99


def test_an_hour_goes_on_from_what_was_stored() -> None:
    counted = BusiestQueues()
    counted.start({1: (5, 2)}, 3)
    counted.charged.append(key(1, 1))
    assert (counted.top(), counted.missed) == ({1: (6, 3)}, 3)


def test_of_a_large_commit_a_part_is_counted_and_stands_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetfrontier.engine.busiest_queues.MOST", 10)
    counted = BusiestQueues()
    counted.charged += [key(1, 2, n) for n in range(10)]
    counted.settle()
    before = counted.sampled
    counted.charged += [key(1, 2, n) for n in range(25)]
    counted.settle()
    spent, fetched = counted.top()[1]
    assert (before, counted.sampled) == (False, True)
    assert 10 + 24 <= fetched <= 10 + 27
    assert spent == 2 * fetched
