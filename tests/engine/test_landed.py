"""Leases whose download is over while their outcome is not known: callbacks and pipelines that take their time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired, PolicyError
from budgetfrontier.reports.explain import explain
from budgetfrontier.testing import crash
from tests.support import START, kernel, memory, on_disk, one, pages, paths, record, state


def loaded(number: int, clock: ManualClock | None = None, **options: Any) -> Frontier:
    """A frontier with so many pages of one host."""
    frontier = memory(clock, **{"hold_queues": False, **options})
    frontier.schedule_many(pages("A", number))
    return frontier


def test_the_next_goes_out_when_one_has_landed() -> None:
    f = loaded(3)
    first = one(f)
    assert (f.lease(1), state(f, "A")) == ([], "IN_PROCESS")
    f.landed(first)
    assert (state(f, "A"), record(f, "A").out, record(f, "A").landed) == ("READY", 1, 1)
    second = one(f)
    assert (paths([second]), f.lease(1), f.summary().in_process) == (["1"], [], 2)
    f.landed(second)
    f.finish(first)
    assert (record(f, "A").out, record(f, "A").landed, record(f, "A").expenditure) == (1, 1, 1)
    f.finish(second, Outcome.RETRY, delay=0)
    assert (record(f, "A").out, record(f, "A").landed) == (0, 0)
    assert paths(f.lease(1)) == ["1"]
    f.check()


def test_what_has_landed_counts_for_no_other_lease_than_its_own() -> None:
    f = loaded(9, concurrency=3)
    leases = f.lease(9)
    assert len(leases) == 3
    f.landed(leases[1])
    assert paths(f.lease(9)) == ["3"]
    f.finish(leases[0])
    assert paths(f.lease(9)) == ["4"]
    f.finish(leases[1])
    assert f.lease(9) == []


def test_the_rest_counts_from_the_landing() -> None:
    clock = ManualClock(START)
    f = loaded(3, clock, polite=True)
    lease = one(f)
    f.landed(lease, fetch_seconds=2.0)
    assert (state(f, "A"), record(f, "A").wake_time, f.next_ready_in()) == ("SNOOZED", START + 10, 10.0)
    clock.advance(6)
    f.finish(lease, fetch_seconds=6.0, crawl_delay=100.0)
    assert record(f, "A").wake_time == START + 10
    clock.advance(4)
    lease = one(f)
    f.landed(lease, crawl_delay=45.0)
    assert record(f, "A").wake_time == START + 55


def test_a_queue_that_was_ready_rests_too() -> None:
    f = loaded(3, polite=True, concurrency=2)
    lease = one(f)
    assert state(f, "A") == "READY"
    f.landed(lease)
    assert (state(f, "A"), f.lease(1)) == ("SNOOZED", [])


def test_a_retry_and_a_delay_lengthen_the_rest() -> None:
    f = loaded(3, polite=True, retry={"delay": 60.0})
    f.schedule_many(pages("B", 1))
    first, other = f.lease(2)
    f.landed(first)
    f.landed(other)
    f.finish(first, Outcome.RETRY)
    f.finish(other, delay=20.0)
    assert (record(f, "A").wake_time, record(f, "B").wake_time) == (START + 60, START + 20)


def test_its_cost_stays_reserved() -> None:
    f = loaded(5, balance_replenish_amount=2)
    leases = [one(f)]
    f.landed(leases[0])
    leases += f.lease(1)
    f.landed(leases[1])
    assert (f.lease(1), state(f, "A"), record(f, "A").reserved) == ([], "IN_PROCESS", 2)
    f.finish(leases[0])
    assert (f.lease(1), state(f, "A")) == ([], "IN_PROCESS")
    f.finish(leases[1])
    assert state(f, "A") == "INACTIVE"


def test_no_more_than_the_total_budget_goes_out() -> None:
    f = loaded(9, queue_total_budget=2)
    leases = []
    while got := f.lease(1):
        f.landed(got[0])
        leases += got
    assert len(leases) == 3
    for lease in leases:
        f.finish(lease)
    assert (state(f, "A"), record(f, "A").expenditure) == ("RETIRED", 3)


def test_the_last_uri_lands() -> None:
    f = loaded(1)
    lease = one(f)
    f.landed(lease)
    assert (state(f, "A"), str(f.state), f.next_ready_in()) == ("IN_PROCESS", "RUNNING", 300.0)
    f.schedule("https://a.test/more")
    assert paths(f.lease(1)) == ["more"]
    f.finish(lease)
    f.check()


def test_a_retired_queue_stays_retired_and_an_inactive_one_inactive() -> None:
    f = loaded(2)
    lease = one(f)
    f.retire("a.test")
    f.landed(lease)
    assert (state(f, "A"), record(f, "A").landed) == ("RETIRED", 1)
    f.unretire("a.test")
    assert state(f, "A") == "INACTIVE"
    assert paths(f.lease(1)) == ["1"]
    f.finish(lease)
    f.check()


def test_landing_twice_changes_nothing() -> None:
    clock = ManualClock(START)
    f = loaded(2, clock, polite=True)
    lease = one(f)
    f.landed(lease, fetch_seconds=1.0)
    clock.advance(5)
    f.landed(lease, fetch_seconds=6.0)
    assert (record(f, "A").landed, record(f, "A").wake_time, lease.landed) == (1, START + 5, True)


def test_a_lease_that_has_ended_cannot_land() -> None:
    clock = ManualClock(START)
    f = loaded(2, clock)
    lease = one(f)
    f.finish(lease)
    with pytest.raises(LeaseExpired):
        f.landed(lease)
    late = one(f)
    clock.advance(301)
    with pytest.raises(LeaseExpired):
        f.landed(late)
    assert (record(f, "A").landed, late.landed, one(f).delivery) == (0, False, 2)


def test_a_landed_lease_expires_and_can_be_renewed() -> None:
    clock = ManualClock(START)
    f = loaded(2, clock)
    first = one(f)
    f.landed(first)
    clock.advance(200)
    f.renew(first)
    second = one(f)
    clock.advance(299)
    f.finish(second)
    clock.advance(1)
    again = one(f)
    assert (paths([again]), again.delivery, again.landed, record(f, "A").landed) == (["0"], 2, False, 0)
    f.check()


@pytest.mark.parametrize("wrong", [{"fetch_seconds": -1}, {"fetch_seconds": "soon"}, {"crawl_delay": float("nan")}])
def test_a_wrong_number_changes_nothing(wrong: dict[str, Any]) -> None:
    f = loaded(2)
    lease = one(f)
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(wrong))} is a number"):
        f.landed(lease, **wrong)
    assert (record(f, "A").landed, lease.landed) == (0, False)


def test_a_lease_that_is_kept_stays_landed(tmp_path: Path) -> None:
    f = on_disk(tmp_path, keep_leases=True, hold_queues=False)
    f.schedule_many(pages("A", 4))
    before = one(f)
    f.landed(before)
    f.commit()
    after = one(f)
    f.commit()
    f.landed(after)
    f.commit()
    crash(f)
    with Reader(tmp_path / "frontier") as reader:
        assert [lease.landed for lease in reader.leases()] == [True, True]
        reader.check()
    with on_disk(tmp_path, keep_leases=True) as f:
        assert (record(f, "A").out, record(f, "A").landed) == (2, 2)
        third = one(f)
        assert paths([third]) == ["2"] and f.lease(1) == []
        with Reader(tmp_path / "frontier") as reader:
            told = explain(reader, "a.test", job="job", now=START).text()
        assert "a.test is IN_PROCESS: 3 URIs are out (2 landed), the last of them for 5m" in told
        for lease in before, after, third:
            f.finish(lease)
        assert (record(f, "A").out, record(f, "A").landed) == (0, 0)
        f.check()


def test_what_had_landed_when_its_process_died_goes_out_again(tmp_path: Path) -> None:
    f = on_disk(tmp_path, hold_queues=False)
    f.schedule_many(pages("A", 2))
    f.landed(one(f))
    f.commit()
    crash(f)
    with on_disk(tmp_path) as f:
        assert (record(f, "A").out, record(f, "A").landed) == (0, 0)
        assert (one(f).delivery, f.lease(1)) == (2, [])
        f.check()


def test_many_land_at_one_host_without_walking_over_them() -> None:
    f = loaded(300)
    for _ in range(200):
        f.landed(one(f))
    tables = kernel(f).tables
    cursor, steps = tables.env.pending, count()

    class Counted:
        """The cursor over what is pending, and how many records it has come to."""

        def iternext(self) -> Iterator[object]:
            return (record for record, _ in zip(cursor.iternext(), steps, strict=False))

        def next(self) -> object:
            next(steps)
            return cursor.next()

        def __getattr__(self, name: str) -> object:
            return getattr(cursor, name)

    tables.env.pending = cast(Any, Counted())
    assert tables.pending.head(record(f, "A").id) is not None
    assert next(steps) <= 2


def no_rest(settings: object, **given: object) -> float:
    """A politeness policy that is broken."""
    raise RuntimeError("no rest")


def test_a_politeness_policy_that_fails_changes_nothing() -> None:
    f = loaded(2, politeness_policy=f"{__name__}:no_rest")
    lease = one(f)
    with pytest.raises(PolicyError, match="no rest"):
        f.landed(lease)
    assert (record(f, "A").landed, record(f, "A").wake_time, lease.landed) == (0, 0, False)
    f.check()


def test_without_politeness_it_sets_no_wake_time_for_a_clock_that_is_set_back(tmp_path: Path) -> None:
    clock = ManualClock(START + 3600)
    with on_disk(tmp_path, clock, hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.landed(lease)
        f.finish(lease)
        assert record(f, "A").wake_time == 0
    clock.set(START)
    with on_disk(tmp_path, clock) as f:
        assert paths(f.lease(1)) == ["1"]
        f.check()
