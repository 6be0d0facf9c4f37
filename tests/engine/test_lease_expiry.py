"""Leases that nobody finishes: expired, given back, or left by a process that died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, Finish, LeaseExpired, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import lease_expiry
from budgetfrontier.testing import crash
from tests.support import START, memory, on_disk, one, pages, paths, record, state


def test_too_many_deliveries_end_in_a_dead_letter() -> None:
    clock = ManualClock(START)
    with memory(clock, max_deliveries=3) as f:
        f.schedule_many(pages("A", 1))
        deliveries = []
        while leases := f.lease(1):
            deliveries.append(leases[0].delivery)
            clock.advance(301)
        assert deliveries == [1, 2, 3]
        (letter,) = f.dead_letters()
        assert letter.uri.url == "https://a.test/0"
        assert letter.deliveries == 3
        assert (state(f, "A"), record(f, "A").expenditure, f.state) == ("EXHAUSTED", 0, CrawlState.FINISHED)
        f.check()


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


def test_leases_that_expire_at_once_end_in_parts_and_none_of_them_can_be_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_expiry, "MOST_EXPIRED", 2)
    clock = ManualClock(START)
    with memory(clock, hold_queues=False) as f:
        f.schedule_many(pages("ABCDEFG", 1))
        *expired, last = f.lease(7, ttl=10.0)
        f.renew(last, 1000.0)
        clock.advance(11)
        with pytest.raises(LeaseExpired):
            f.finish(expired[5])  # this call has ended the first two
        assert f.summary().in_process == 5 and f.next_ready_in() == 0.0
        assert f.finish_many([Finish(expired[4], Outcome.FAILURE), expired[5], last]) == [expired[4], expired[5]]
        assert f.give_back([expired[5], expired[5]]) == [expired[5], expired[5]]
        assert (f.summary().in_process, f.summary().succeeded, f.summary().failed) == (0, 1, 0)
        assert [(lease.queue[0], lease.delivery) for lease in f.lease(9)] == [(name, 2) for name in "abcdef"]
        f.check()


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


def test_leases_given_back_at_a_close_go_out_again_first_and_uncounted(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("ABC", 1))
        given_back = [lease.queue for lease in f.lease(2)]
    with on_disk(tmp_path) as f:
        leases = f.lease(3)
        assert [lease.queue for lease in leases] == [*given_back, "c.test"]
        assert [lease.delivery for lease in leases] == [1, 1, 1]
        f.check()


def test_leases_of_a_process_that_died_go_out_again_first_and_are_counted(tmp_path: Path) -> None:
    f = on_disk(tmp_path, hold_queues=False)
    f.schedule_many(pages("ABC", 1))
    lost = [lease.queue for lease in f.lease(2)]
    f.commit()
    crash(f)
    with on_disk(tmp_path) as f:
        leases = f.lease(3)
        assert [lease.queue for lease in leases] == [*lost, "c.test"]
        assert [lease.delivery for lease in leases] == [2, 2, 1]
        f.check()


def test_leases_given_back_are_handed_out_again_in_their_order_as_if_never_given() -> None:
    clock = ManualClock(START)
    with memory(clock, concurrency=2) as f:
        f.schedule_many(pages("ABC", 3))
        leases = f.lease(5)
        assert f.give_back([leases[3], leases[0], leases[0]]) == [leases[0]]
        assert f.summary().in_process == 3
        again = f.lease(2)
        assert {(lease.uri.url, lease.delivery, lease.attempt) for lease in again} == {
            (lease.uri.url, 1, 1) for lease in (leases[0], leases[3])
        }
        assert not {lease.id for lease in again} & {lease.id for lease in leases}
        clock.advance(301)
        assert f.give_back([again[0]]) == [again[0]]  # it has expired
        total = f.summary()
        assert (total.in_process, total.expired, total.deferred, total.expenditure) == (0, 5, 0, 0)
        f.check()


def test_a_landed_lease_may_be_given_back() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.landed(lease)
        assert f.give_back([lease]) == [] and record(f, "A").landed == 0
        assert paths(f.lease(5)) == paths([lease])
        f.check()


def test_leases_given_back_stay_given_back_after_a_crash(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("AB", 1))
    leases = f.lease(2)
    f.commit()
    f.give_back(leases[:1])
    f.commit()
    crash(f)
    with on_disk(tmp_path) as f:
        assert sorted(lease.delivery for lease in f.lease(2)) == [1, 2]
        f.check()
