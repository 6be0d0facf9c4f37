"""What survives a clean close, a crash and a restart, and what an error leaves behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import guard
from budgetfrontier.errors import FrontierClosed, FrontierError, FrontierLocked, LeaseExpired
from budgetfrontier.storage import environment
from budgetfrontier.testing import crash
from tests.support import START, crawl, crawl_state, memory, on_disk, one, pages, record, state


def test_a_clean_close_gives_leases_back_uncounted(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 2))
        assert crawl(f, 1) == "A"
        stale = f.lease(2)
        assert [lease.queue[0] for lease in stale] == ["b", "c"]
    with on_disk(tmp_path) as f:
        assert f.summary().in_process == 0
        with pytest.raises(LeaseExpired):
            f.finish(stale[0], Outcome.SUCCESS)
        leases = f.lease(4)
        assert [(lease.queue[0], lease.delivery) for lease in leases] == [("b", 1), ("c", 1), ("d", 1), ("a", 1)]
        assert min(lease.id for lease in leases) > max(lease.id for lease in stale)


def test_everything_survives_a_clean_close(tmp_path: Path) -> None:
    with on_disk(tmp_path, balance_replenish_amount=5) as f:
        f.schedule_many(pages("ABCD", 4))
        assert crawl(f, 2) == "AA"
        f.finish(one(f), Outcome.DEAD, reason="gone")
        f.retire("d.test")
        f.adjust(match="queue:b.test", queue_total_budget=0)
        f.schedule(CrawlUri("https://e.test/", not_before=START + 60, meta={"x": 1}))
        before, rows = f.summary(), [record(f, host) for host in "ABCD"]
        f.pause()
    clock = ManualClock(START)
    with on_disk(tmp_path, clock) as f:
        assert crawl_state(f) == "PAUSED"
        f.resume()
        assert f.summary() == before
        for old, new in zip(rows, [record(f, host) for host in "ABCD"], strict=True):
            assert (old.state, old.queued, old.expenditure, old.charges) == (
                new.state,
                new.queued,
                new.expenditure,
                new.charges,
            )
        assert f.schedule("https://a.test/0").value == "DUPLICATE"
        assert crawl(f) == "ABCCCC"
        assert [state(f, host) for host in "ABCD"] == ["EXHAUSTED", "RETIRED", "EXHAUSTED", "RETIRED"]
        clock.advance(60)
        assert one(f).uri.meta == {"x": 1}
        assert f.dead_letters()[0].reason == "gone"


def test_a_crash_returns_to_the_last_commit(tmp_path: Path) -> None:
    f = on_disk(tmp_path, polite=False)
    f.schedule_many(pages("A", 3))
    assert crawl(f, 1) == "A"
    f.commit()
    assert crawl(f, 1) == "A"
    f.schedule_many(pages("B", 3))
    f.adjust(queue_total_budget=0)
    crash(f)
    with on_disk(tmp_path) as f:
        assert (f.summary().succeeded, f.summary().expenditure, f.queue("b.test")) == (1, 1, None)
        assert record(f, "A").total_budget == -1
        assert crawl(f) == "AA"


def test_a_lease_of_a_crashed_process_counts_as_a_delivery_if_committed(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("AB", 2))
    committed = one(f)
    f.commit()
    lost = one(f)
    crash(f)
    with on_disk(tmp_path) as f:
        for stale in committed, lost:
            with pytest.raises(LeaseExpired):
                f.finish(stale, Outcome.SUCCESS)
        leases = f.lease(2)
        assert [(lease.queue[0], lease.delivery) for lease in leases] == [("a", 2), ("b", 1)]
        assert min(lease.id for lease in leases) > lost.id


def test_leases_can_be_kept_across_a_crash(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("A", 2))
    lease = one(f)
    f.commit()
    crash(f)
    with on_disk(tmp_path, keep_leases=True) as f:
        assert (state(f, "A"), f.summary().in_process, f.lease(1)) == ("IN_PROCESS", 1, [])
        f.finish(lease, Outcome.SUCCESS)
        assert f.summary().succeeded == 1


def test_a_lease_that_finds_nothing_commits(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("A", 1))
    f.retire("a.test")
    assert f.lease(1) == []
    crash(f)
    with on_disk(tmp_path) as f:
        assert state(f, "A") == "RETIRED"


def test_many_operations_commit(tmp_path: Path) -> None:
    f = on_disk(tmp_path, commit_operations=10)
    for url in pages("A", 25):
        f.schedule(url)
    crash(f)
    with on_disk(tmp_path) as f:
        assert record(f, "A").queued >= 15


def test_crashes_count_towards_the_deliveries(tmp_path: Path) -> None:
    for delivery in 1, 2:
        f = on_disk(tmp_path, max_deliveries=2)
        f.schedule_many(pages("A", 1))
        assert one(f).delivery == delivery
        f.commit()
        crash(f)
    with on_disk(tmp_path) as f:
        assert (f.lease(1), f.summary().dead, f.state) == ([], 1, CrawlState.FINISHED)


def test_an_operators_block_survives_a_crash(tmp_path: Path) -> None:
    clock = ManualClock(START)
    f = on_disk(tmp_path, clock)
    f.schedule_many(pages("A", 1))
    f.snooze("a.test", until=START + 200)
    f.commit()
    crash(f)
    with on_disk(tmp_path, clock) as f:
        assert f.lease(1) == []
        assert f.next_ready_in() == pytest.approx(200)


def test_a_queue_unretired_while_empty_stays_so(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 1))
        f.retire("a.test")
        f.delete(queue="a.test")
        f.commit()
        f.unretire("a.test")
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 1, first=1))
        assert state(f, "A") == "INACTIVE"


def test_a_wrong_argument_changes_nothing_and_leaves_the_frontier_open() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        wrongs: list[dict[str, Any]] = [{"fetch_seconds": "soon"}, {"discovered": 7}, {"crawl_delay": "x"}]
        for wrong in wrongs:
            with pytest.raises((TypeError, ValueError, FrontierError)):
                f.finish(lease, Outcome.SUCCESS, **wrong)
        with pytest.raises((TypeError, ValueError, FrontierError)):
            f.finish(lease, "MAYBE")  # type: ignore[arg-type]
        assert f.summary().in_process == 1
        f.finish(lease, Outcome.SUCCESS)
        f.check()


def test_an_interrupt_in_mid_operation_aborts_to_the_commit_and_closes(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("A", 2))
    f.commit()

    def interrupted() -> Iterator[str]:
        yield "https://b.test/"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        f.schedule_many(interrupted())
    with pytest.raises(FrontierClosed):
        f.lease(1)
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, f.queue("b.test")) == (2, None)
        f.check()


def test_a_frontier_has_one_writer(tmp_path: Path) -> None:
    with on_disk(tmp_path), pytest.raises(FrontierError) as caught:
        on_disk(tmp_path)
    assert isinstance(caught.value, FrontierLocked)
    on_disk(tmp_path).close()


def test_large_uris_are_committed_before_they_fill_the_memory(tmp_path: Path) -> None:
    big = b"x" * 900_000
    with on_disk(tmp_path, commit_interval=3600.0) as frontier:
        frontier.schedule_many(CrawlUri(f"https://a.test/{i}", payload=big) for i in range(40))
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().queued >= 32


def test_new_uris_are_committed_before_their_pages_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "MOST_SEEN_PAGES", 3)
    with on_disk(tmp_path, commit_interval=3600.0) as frontier:
        frontier.schedule_many(f"https://a.test/{i}" for i in range(1000))
        frontier.commit()
        frontier.schedule_many(f"https://b.test/{i}" for i in range(1000))
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().queued == 2000


def test_a_commit_that_is_postponed_comes_when_the_time_is_over_or_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, commits = ManualClock(START), list[float]()
    monkeypatch.setattr(guard, "monotonic", clock.time)
    monkeypatch.setattr("budgetfrontier.engine.frontier.monotonic", clock.time)
    monkeypatch.setattr(time, "monotonic", clock.time)
    with on_disk(tmp_path, commit_interval=1) as f:
        commit = environment.Environment.commit

        def noted(env: environment.Environment) -> None:
            commits.append(clock.time() - START)
            commit(env)

        monkeypatch.setattr(environment.Environment, "commit", noted)
        f.internals.postpone_commit(30)
        for _ in range(6):
            clock.advance(10)
            f.schedule(f"http://a.test/{clock.time()}")
        assert commits == [30, 40, 50, 60]
        f.internals.postpone_commit(30)
        f.schedule("http://b.test/")
        f.commit()
        assert commits == [30, 40, 50, 60, 60]
