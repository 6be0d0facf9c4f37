"""Leases: how long they last, who may finish and renew them, and what becomes of those that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
from budgetfrontier.testing import crash
from tests.support import START, memory, on_disk, one, pages, paths, record, state


def test_a_lease_expires_and_its_uri_is_delivered_again() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("AB", 1))
        (first,) = f.lease(1, ttl=10.0)
        assert (first.delivery, first.expires) == (1, START + 10)
        assert f.summary().in_process == 1
        clock.advance(11)
        leases = f.lease(5)
        assert [(lease.queue[0], lease.delivery) for lease in leases] == [("a", 2), ("b", 1)]
        assert leases[0].id > first.id
        assert record(f, "A").expenditure == 0


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


def test_an_expired_lease_leaves_a_retired_queue_retired() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        one(f)
        f.retire("a.test")
        clock.advance(301)
        assert f.lease(1) == []
        assert (state(f, "A"), f.summary().in_process, f.state) == ("RETIRED", 0, CrawlState.FINISHED)


def test_an_expired_lease_does_not_cut_a_snooze_short() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        f.lease(1, ttl=10.0)
        f.snooze("a.test", until=START + 100)
        clock.advance(50)
        assert f.lease(1) == []
        assert (state(f, "A"), f.summary().in_process) == ("SNOOZED", 0)
        clock.advance(50)
        assert one(f).delivery == 2


@pytest.mark.parametrize("end", ["expiry", "close", "crash"])
def test_a_depleted_queue_whose_last_lease_is_lost_hands_out_no_more(end: str, tmp_path: Path) -> None:
    clock = ManualClock(START)
    options: dict[str, Any] = {"concurrency": 3, "balance_replenish_amount": 3, "error_penalty_amount": 3}
    f = on_disk(tmp_path, clock, **options)
    f.schedule_many(pages("A", 5) + pages("B", 1))
    a = f.lease(3)
    assert paths(a) == ["0", "1", "2"]
    f.finish(a[0], Outcome.FAILURE)
    assert (record(f, "A").balance, state(f, "A")) == (-1, "IN_PROCESS")
    if end == "expiry":
        f.renew(a[2], 400.0)
        clock.advance(350)
        with pytest.raises(LeaseExpired):
            f.renew(a[1])
        assert state(f, "A") == "IN_PROCESS"
        clock.advance(350)
        with pytest.raises(LeaseExpired):
            f.finish(a[2])
    elif end == "close":
        f.close()
        f = on_disk(tmp_path, clock)
    else:
        f.commit()
        crash(f)
        f = on_disk(tmp_path, clock)
    assert (state(f, "A"), f.next_ready_in()) == ("INACTIVE", 0.0)
    assert [lease.queue for lease in f.lease(2)] == ["b.test", "a.test"]
    assert record(f, "A").balance == 3
    f.check()
    f.close()
