"""The changelog of a partition's frontier: what its owner has taken, committed, and thrown away."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import lease_table
from budgetfrontier.engine.changelog import Changelog
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import CommandInProgress, FrontierClosed, FrontierError, LeaseExpired, WrongThread
from budgetfrontier.storage import keys, meta, table_changes
from budgetfrontier.storage.encoding import encode, with_checksum
from budgetfrontier.storage.environment import Environment
from tests.support import START, kernel, make_settings, one, pages, record

AT_0 = with_checksum(encode([0]))
PARTITION = 9


def owner(
    folder: Path, clock: ManualClock | None = None, *, partition: int = PARTITION, **options: Any
) -> tuple[Frontier, Changelog]:
    """The frontier of an owner."""
    settings = make_settings(hold_queues=False, **options)
    clock = clock or ManualClock(START)
    frontier = Frontier.open(folder / "frontier", settings, clock=clock, keep_leases=True, partition=partition)
    log = frontier.internals.changelog
    log.write(meta.PLACE, AT_0)
    return frontier, log


def stored_settings(frontier: Frontier) -> dict[str, Any]:
    """The settings in its tables."""
    env = kernel(frontier).tables.env
    found: dict[str, Any] = json.loads(env.txn.get(b"settings", db=env.db[keys.META]) or b"")
    return found


def store(log: Changelog) -> None:
    """Commit, as if the log had all of it."""
    log.take()
    log.commit()


def test_nothing_is_stored_before_the_log_has_it(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    f.schedule_many(pages("AB", 3))
    f.lease(9)  # nothing left: elsewhere this would commit
    f.lease(9)
    assert not (tmp_path / "frontier" / "data.mdb").exists()
    assert log.take() is not None
    assert not (tmp_path / "frontier" / "data.mdb").exists()
    log.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert (reader.summary().seen, reader.row(meta.PLACE)) == (6, AT_0)
        f.schedule("https://c.test/")
        with pytest.raises(FrontierError, match="that the log has not"):
            log.commit()
        for call in f.commit, lambda: f.atomic().__enter__():
            with pytest.raises(FrontierError, match="atomic batch"):
                call()
        assert reader.summary().seen == 6
    f.close()
    f, log = owner(tmp_path)
    assert f.summary().seen == 6, "closing has committed nothing"
    f.check()
    f.close()


def test_where_nothing_happens_there_is_nothing_to_write(tmp_path: Path) -> None:
    clock = ManualClock(START)
    f, log = owner(tmp_path, clock)
    f.schedule_many(pages("A", 1))
    lease = one(f)
    store(log)
    for _ in range(3):
        clock.advance(61)
        assert f.lease(5) == [] and f.next_ready_in() is not None
        assert f.summary().queued == 1
        log.write(meta.PLACE, AT_0)
        assert not log.has_changes and log.take() is None and not log.is_full
        f.check()  # which writes the counters as they are
        assert not log.has_changes
    f.finish(lease)
    assert log.has_changes
    f.close()


def test_what_the_log_refuses_is_thrown_away(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    f.schedule_many(pages("A", 3))
    store(log)
    f.finish(one(f))
    log.take()
    f.finish(one(f))
    log.drop("another worker has claimed it")
    log.drop("twice is once")
    with pytest.raises(FrontierClosed, match="another worker has claimed it"):
        f.lease()
    f, log = owner(tmp_path)
    assert (f.summary().succeeded, f.summary().queued) == (0, 3)
    f.close()


def test_a_batch_that_is_too_large_says_so_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetfrontier.engine.changelog.MOST_OPERATIONS", 40)
    f, log = owner(tmp_path)
    for number in range(30):
        f.schedule(f"https://a.test/{number}")
    full = [log.is_full]
    store(log)
    assert [*full, log.is_full] == [True, False]
    with pytest.raises(FrontierError, match="operations"):
        for number in range(100):
            f.schedule(f"https://b.test/{number}")
    f, log = owner(tmp_path)
    assert f.summary().queued == 30
    f.close()


def test_leases_have_the_number_of_their_partition_and_are_never_those_of_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = set[int]()
    for partition in (0, 9, 4095):
        for _ in range(2):
            f, log = owner(tmp_path / str(partition), partition=partition)
            f.schedule_many(
                pages("AB", 3),
            )
            leases = f.lease()
            assert {keys.partition_of_lease(lease.id) for lease in leases} == {partition}
            assert not given & {lease.id for lease in leases} and max(lease.id for lease in leases) < 1 << 63
            given |= {lease.id for lease in leases}
            store(log)
            f.close()
    monkeypatch.setattr(lease_table, "randbits", lambda bits: (1 << bits) - 1)
    monkeypatch.setattr(keys, "PARTITION_RESERVE", (1 << keys.PARTITION_SHIFT) - (1 << keys.PARTITION_RANDOM_BITS) - 1)
    f, log = owner(tmp_path / "last", partition=4095)
    f.schedule_many(pages("ABC", 1))
    first = one(f)
    store(log)
    second = one(f)
    assert second.id >> keys.EPOCH_SHIFT == (first.id >> keys.EPOCH_SHIFT) + 1, "before its numbers are used up"
    assert keys.partition_of_lease(second.id) == 4095
    f.finish_many([first, second])
    assert f.summary().succeeded == 2
    f.close()


def test_a_partition_and_a_job_are_not_taken_for_each_other(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    with pytest.raises(FrontierError, match="that of no partition"), Frontier.open(tmp_path / "job") as job:
        job.internals.changelog  # noqa: B018
    store(log)
    f.close()
    with pytest.raises(FrontierError, match="a copy of a partition"):
        Frontier.open(tmp_path / "frontier")
    with pytest.raises(FrontierError, match="a frontier of its own"):
        Frontier.open(tmp_path / "job", partition=1)


def test_a_call_that_is_refused_changes_nothing_and_an_error_throws_away_what_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    f, log = owner(tmp_path, clock)
    f.schedule_many(pages("A", 2))
    lease = one(f)
    clock.advance(301)
    with pytest.raises(LeaseExpired):
        f.finish(lease)
    store(log)
    with pytest.raises(ValueError, match="fetch_seconds"):
        f.finish(one(f), fetch_seconds=-1)
    assert f.summary().in_process == 1
    monkeypatch.setattr(kernel(f).tables, "flush", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        log.take()
    with pytest.raises(FrontierClosed):
        f.lease()
    log.drop("it is closed already")
    f, log = owner(tmp_path)
    assert (f.summary().in_process, f.summary().queued) == (0, 2)
    f.close()


def test_a_long_command_is_taken_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    f, log = owner(tmp_path)
    f.schedule_many(pages("A", 7))
    store(log)
    delete = Command("delete", {"queue": "a.test", "for_good": True}, "ops", "")
    retire = Command("retire", {"queue": "a.test"}, "ops", "")
    assert log.apply(delete) is None and log.goes_on_at() == 0.0
    with pytest.raises(CommandInProgress):
        log.apply(retire)
    store(log)
    f.close()
    f, log = owner(tmp_path)  # another owner goes on with it
    while (entry := log.go_on()) is None:
        assert log.take() is not None
    assert entry.effect["deleted"] == 7 and log.goes_on_at() == math.inf
    refused = log.refuse(retire, "not here")
    assert refused.error == "not here" and record(f, "A").queued == 0
    f.close()


def test_hooks_are_called_once_it_is_committed(tmp_path: Path) -> None:
    ended = list[Outcome]()

    class Hook:
        def on_finish(self, frontier: Frontier, lease: object, outcome: Outcome) -> None:
            ended.append(outcome)

    settings = make_settings(hold_queues=False)
    f = Frontier.open(tmp_path / "f", settings, clock=ManualClock(START), hooks=[Hook()], keep_leases=True, partition=0)
    log = f.internals.changelog
    f.schedule_many(pages("A", 1))
    f.finish(one(f))
    log.take()
    assert ended == []
    log.commit()
    assert ended == [Outcome.SUCCESS]
    f.close()


def test_hooks_are_called_once_what_the_opening_did_is_committed(tmp_path: Path) -> None:
    told = list[CrawlState]()

    def on_pause_at_finish(frontier: Frontier, report: object) -> None:
        told.append(frontier.state)

    def opened(precedence: int) -> tuple[Frontier, Changelog]:
        settings = make_settings(precedence_floor=4, precedence=precedence, pause_at_finish=True)
        frontier = Frontier.open(
            tmp_path / "f", settings, clock=ManualClock(START), hooks=[on_pause_at_finish], keep_leases=True,
            partition=PARTITION,
        )  # fmt: skip
        frontier.internals.changelog.write(meta.PLACE, AT_0)
        return frontier, frontier.internals.changelog

    f, log = opened(3)
    f.schedule_many(pages("A", 1))
    store(log)
    f.close()
    f, log = opened(5)  # nothing is eligible any more
    assert (f.state, told) == (CrawlState.PAUSED, [])
    store(log)
    f.schedule_many(pages("B", 1))
    store(log)
    assert told == [CrawlState.PAUSED]
    f.close()


def test_the_end_of_a_run_is_handed_over(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    f.schedule_many(pages("A", 1))
    one(f)
    log.end("the worker was stopped")
    store(log)
    f.close()
    with Reader(tmp_path / "frontier") as reader:
        (run,) = reader.runs()
        assert (run.reason, run.leased, reader.summary().in_process) == ("the worker was stopped", 1, 1)


def test_what_partitions_have_told_each_other_is_kept(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    assert (log.peers.heard(3), log.peers.told(3)) == ((-1, 0), (-1, 0))
    log.peers.hear(3, (1 << 60, 7))
    log.peers.tell(3, (5, 1 << 40))
    log.peers.tell(PARTITION, (6, 0))
    store(log)
    f.close()
    f, log = owner(tmp_path)
    assert (log.peers.heard(3), log.peers.told(3)) == ((1 << 60, 7), (5, 1 << 40))
    assert (log.peers.heard(PARTITION), log.peers.told(PARTITION)) == ((-1, 0), (6, 0))
    f.check()
    f.close()


def test_a_copy_that_is_applied_elsewhere_has_a_frontier_that_goes_on(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    f.schedule_many(pages("AB", 3))
    lease = one(f)
    changes = log.take()
    assert changes is not None
    copy = Environment(tmp_path / "copy" / "frontier")
    assert table_changes.apply(copy, changes).rows > 6
    copy.commit()
    copy.close()
    log.drop("its machine is gone")
    f, log = owner(tmp_path / "copy")
    f.finish(lease)
    assert (f.summary().succeeded, f.summary().queued) == (1, 5)
    f.check()
    f.close()


def test_settings_of_a_newer_release_change_nothing_for_an_owner_that_does_not_know_them(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    f.schedule_many(pages("A", 2))
    f.retire("a.test")
    plain, env = stored_settings(f), kernel(f).tables.env
    plain["frontier"] |= {"of_tomorrow": {"much": 1}}
    plain["of_tomorrow"] = True
    env.txn.put(b"settings", json.dumps(plain).encode(), db=env.db[keys.META])
    store(log)
    f.close()
    f, log = owner(tmp_path)
    assert [entry.command for entry in f.audit()] == ["retire"], "this was no change of settings"
    assert stored_settings(f) == plain, "nor are those of the other release lost"
    f.close()
    f, log = owner(tmp_path, queue_total_budget=7)
    assert [entry.command for entry in f.audit()] == ["retire", "settings"]
    f.check()
    f.close()


def test_another_thread_closes_no_frontier_of_a_partition(tmp_path: Path) -> None:
    f, log = owner(tmp_path)
    errors: list[type[BaseException]] = []

    def close() -> None:
        try:
            f.close()
        except FrontierError as error:
            errors.append(type(error))

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert errors == [WrongThread]
    f.schedule("https://a.test/")
    store(log)
    f.close()
