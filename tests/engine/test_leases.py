"""Leases: how long they last, who may finish and renew them, and what becomes of those that are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
from budgetfrontier.store.encoding import encode
from budgetfrontier.store.records import LeaseRow, decode_lease
from budgetfrontier.testing import crash
from tests.support import START, memory, on_disk, one, pages, record


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


def began(folder: Path) -> dict[str, float]:
    """When each lease was handed out, as another process reads it."""
    with Reader(folder / "frontier") as reader:
        return {lease.uri.url: lease.began - START for lease in reader.leases()}


def test_the_age_of_a_lease_is_stored_and_outlives_renewals_landings_and_reopening(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, keep_leases=True, concurrency=9) as f:
        f.schedule_many(pages("A", 6))
        first = f.lease(2)
        clock.advance(7)
        (third,) = f.lease(1)
        f.lease(1)
        f.finish(first.pop())
        f.commit()
        clock.advance(20)
        (last,) = f.lease(1)
        f.renew(first[0], 1000.0)
        f.renew(last, 1000.0)
        f.landed(third)
        f.commit()
        expected = {first[0].uri.url: 0.0, third.uri.url: 7.0, "https://a.test/3": 7.0, last.uri.url: 27.0}
        assert began(tmp_path) == expected
        crash(f)
    clock.advance(100)
    with on_disk(tmp_path, clock, keep_leases=True) as f:
        f.renew(next(iter(f._tables.leases.out.values())), 2000.0)
        f.commit()
        assert began(tmp_path) == expected
        f.check()


def test_the_age_of_leases_follows_a_clock_that_was_ahead(tmp_path: Path) -> None:
    f = on_disk(tmp_path, ManualClock(START + 86_400), keep_leases=True, concurrency=1)
    f.schedule_many(pages("A", 1))
    one(f)
    f.commit()
    crash(f)
    with on_disk(tmp_path, ManualClock(START), keep_leases=True):
        assert began(tmp_path) == {"https://a.test/0": 0.0}


def test_leases_that_an_older_version_wrote_have_no_known_age() -> None:
    older = encode([1, bytes(21), 5.0, True])
    assert decode_lease(older) == LeaseRow(1, bytes(21), 5.0, True, 0.0)
