"""Leases: how long they last, who may finish and renew them, and what becomes of those that are lost."""

from __future__ import annotations

import pytest

from budgetfrontier import Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
from tests.support import START, memory, one, pages, record


def test_the_usual_ttl() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert one(f).expires == START + 300.0


def test_an_expired_lease_can_be_neither_finished_nor_renewed() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        clock.advance(301)
        with pytest.raises(LeaseExpired):
            f.finish(lease, Outcome.SUCCESS, discovered=["https://b.test/"])
        with pytest.raises(LeaseExpired):
            f.renew(lease, 300.0)
        assert (record(f, "A").queued, f.summary().succeeded, f.summary().expenditure) == (1, 0, 0)
        assert f.queue("b.test") is None
        assert one(f).delivery == 2


def test_a_lease_is_finished_once() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.finish(lease, Outcome.SUCCESS)
        with pytest.raises(LeaseExpired):
            f.finish(lease, Outcome.SUCCESS)
        assert f.summary().succeeded == 1


def test_a_renewed_lease_lives_on() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        clock.advance(200)
        f.renew(lease, 300.0)
        clock.advance(200)
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS)
        assert f.summary().succeeded == 1
