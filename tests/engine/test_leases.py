"""Leases: how long they last, who may finish and renew them, and what becomes of those that are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Lease, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
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


def refuses(call: Callable[[], object]) -> bool:
    """Whether a call refuses a lease: with an error, or among those that had ended."""
    try:
        return bool(call())
    except LeaseExpired:
        return True


def calls_with(f: Frontier, lease: Lease) -> list[Callable[[], object]]:
    """All that ends or changes a lease."""
    return [
        lambda: f.finish(lease),
        lambda: f.finish_many([lease]),
        lambda: f.finish_many([Finish(lease, Outcome.RETRY)]),
        lambda: f.give_back([lease]),
        lambda: f.renew(lease, 9),
        lambda: f.landed(lease),
        lambda: f.internals.leased(lease.id) is None,
    ]


def test_a_lease_of_another_frontier_is_refused() -> None:
    with memory(concurrency=9) as mine, memory(concurrency=9) as other:
        for f in (mine, other):
            f.schedule_many(pages("A", 3))
        lease, foreign = one(mine), one(other)
        assert all(refuses(call) for call in calls_with(mine, foreign))
        assert mine.internals.leased(lease.id) is lease and not lease.landed
        assert (mine.summary().succeeded, mine.summary().retried, mine.summary().in_process) == (0, 0, 1)
        mine.finish(lease)
        mine.check()


def test_a_lease_from_before_a_backup_was_restored_is_refused(tmp_path: Path) -> None:
    with on_disk(tmp_path, concurrency=9) as f:
        f.schedule_many(pages("A", 4))
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            reader.backup(tmp_path / "backup")
    with Frontier.open(tmp_path / "frontier", keep_leases=True) as f:
        held = f.lease(2)
    shutil.rmtree(tmp_path / "frontier")
    (tmp_path / "backup").rename(tmp_path / "frontier")
    with Frontier.open(tmp_path / "frontier", keep_leases=True) as f:
        again = f.lease(2)
        assert f.finish_many(held) == held
        assert all(refuses(call) for call in calls_with(f, held[0]))
        assert f.summary().succeeded == 0
        assert f.finish_many(again) == []


def test_ids_rise_from_run_to_run_and_begin_at_random(tmp_path: Path) -> None:
    ids = list[int]()
    for _ in range(5):
        with on_disk(tmp_path, hold_queues=False) as f:
            f.schedule_many(pages("A", 1))
            ids.append(one(f).id)
    assert ids == sorted(ids) and max(ids) < 1 << 63
    assert len({lease_id % (1 << 40) for lease_id in ids}) == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [("queue_id", 99), ("key", b"x"), ("cost", 10**6), ("expires", 0.0), ("landed", True), ("queue", "z"), ("id", 5)],
)
def test_a_lease_cannot_be_changed_by_its_caller(tmp_path: Path, field: str, value: object) -> None:
    with on_disk(tmp_path, concurrency=9) as f:
        f.schedule_many(pages("A", 2))
        lease, copied = f.lease(2)
        with pytest.raises(AttributeError):
            setattr(lease, field, value)
        f.finish(lease)
        if field != "id":
            f.finish(msgspec.structs.replace(copied, **{field: value}))
            assert f.summary().succeeded == 2
        f.check()


@pytest.mark.parametrize("field", CrawlUri.__struct_fields__)
def test_the_uri_of_a_lease_cannot_be_changed_by_its_caller(field: str) -> None:
    with memory() as f:
        uri = CrawlUri("https://a.test/1", meta={"n": [1]}, headers={"A": "b"}, directive=Directive.MEDIUM)
        f.schedule(uri)
        lease = one(f)
        before = msgspec.to_builtins(lease.uri)
        for each in (uri, lease.uri):
            with pytest.raises(AttributeError):
                setattr(each, field, getattr(CrawlUri("https://b.test/2"), field))
        lease.uri.meta["n"].append(2)
        assert lease.uri.headers is not None
        lease.uri.headers["A"] = "c"
        f.finish(lease, Outcome.DEFERRED, discovered=["https://c.test/3"])
        leased = {each.queue: each.uri for each in f.lease(2)}
        assert msgspec.to_builtins(leased["a.test"]) == before and leased["c.test"].via == "https://a.test/1"
        f.check()


def test_a_lease_shows_its_caller_when_it_was_renewed_and_has_landed() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        copied = msgspec.structs.replace(lease)
        f.renew(copied, 9.0)
        f.landed(copied)
        assert (lease.expires, lease.landed) == (copied.expires, copied.landed) == (START + 9.0, True)


def test_a_lease_of_an_earlier_run_ends_as_any_other(tmp_path: Path) -> None:
    f = on_disk(tmp_path, concurrency=9)
    f.schedule_many(pages("A", 4))
    ids = [lease.id for lease in f.lease(3)]
    f.commit()
    crash(f)
    with Frontier.open(tmp_path / "frontier", clock=ManualClock(START), keep_leases=True) as f:
        kept = [lease for lease in map(f.internals.leased, ids) if lease is not None]
        fresh = one(f)
        assert f.finish_many([kept[0], fresh]) == []
        assert f.finish_many([kept[1], Finish(kept[2])]) == []
        assert f.finish_many(kept) == kept
        assert f.summary().succeeded == 4


def test_what_waits_is_queued_and_not_leased_whatever_becomes_of_the_queues_of_leases() -> None:
    with memory(concurrency=4, hold_queues=False) as f:
        f.schedule_many(pages("AB", 6))
        leases = f.lease(8)
        assert (f.summary().queued, len(leases), f.waiting()) == (12, 8, 4)
        f.retire("a.test")
        assert (f.summary().queued, f.summary().in_process, f.waiting()) == (6, 8, 2)
        f.finish_many(leases)
        assert (f.summary().queued, f.waiting()) == (2, 2)
        f.unretire("a.test")
        assert f.waiting() == 4
