"""The history of runs: each ends once, also by a kill, by an error, and on a full disk."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import lmdb
import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.engine.runs import this_program
from budgetfrontier.errors import StorageFull
from budgetfrontier.rules import run_history
from budgetfrontier.storage import keys
from budgetfrontier.testing import crash
from tests.crash.processes import in_child
from tests.support import START, kernel, on_disk, pages


def history(folder: Path) -> list[Run]:
    with Reader(folder / "frontier") as reader:
        return reader.runs()


def ends(folder: Path) -> list[tuple[int, RunEnd | None, str]]:
    return [(run.number, run.end, run.reason) for run in history(folder)]


def test_a_run_is_stored_with_its_beginning_and_its_end(tmp_path: Path) -> None:
    clock = ManualClock(START)
    f = Frontier.open(tmp_path / "frontier", clock=clock, program="a test")
    (run,) = history(tmp_path)
    assert (run.number, run.program, run.pid, run.host) == (1, "a test", os.getpid(), os.uname().nodename)
    assert (run.began, run.ended, run.end, run.leased) == (START, None, None, None)
    f.schedule_many(pages("A", 2))
    f.lease(1)
    clock.advance(50)
    f.close(end=RunEnd.LIMIT, reason="limits.max_uris")
    (run,) = history(tmp_path)
    assert (run.began, run.ended, run.end, run.reason) == (START, START + 50, RunEnd.LIMIT, "limits.max_uris")
    assert run.leased == 1


def test_a_second_close_changes_nothing(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.close(end=RunEnd.SIGNAL, reason="SIGTERM")
    f.close(end=RunEnd.ERROR)
    assert ends(tmp_path) == [(1, RunEnd.SIGNAL, "SIGTERM")]


def test_a_run_that_hands_nothing_out_and_says_nothing_leaves_no_trace(tmp_path: Path) -> None:
    on_disk(tmp_path).close(end=RunEnd.EXIT, reason="said")
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 2))
    assert ends(tmp_path) == [(1, RunEnd.EXIT, "said")]
    with on_disk(tmp_path) as f:
        assert f.lease(1)
    assert ends(tmp_path) == [(1, RunEnd.EXIT, "said"), (2, RunEnd.EXIT, "")]


def test_a_run_that_asked_for_uris_and_got_none_is_kept(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", program="waits.py") as f:
        f.schedule_many(pages("A", 2))
        f.pause()
        assert not f.lease(1)
    assert [(run.end, run.leased, run.program) for run in history(tmp_path)] == [(RunEnd.EXIT, 0, "waits.py")]
    with Frontier.open(tmp_path / "frontier", program="sleeps.py") as f:
        assert f.next_ready_in() is not None
    assert [run.program for run in history(tmp_path)] == ["waits.py", "sleeps.py"]
    with Frontier.open(tmp_path / "frontier", program=run_history.SERVE) as f:
        assert not f.lease(1)
    assert len(history(tmp_path)) == 2, "clients ask a server again and again"


def test_a_run_that_was_killed_ended_at_its_last_commit(tmp_path: Path) -> None:
    clock = ManualClock(START)
    f = on_disk(tmp_path, clock)
    clock.advance(10)
    f.schedule_many(pages("A", 2))
    f.commit()
    clock.advance(1000)
    f.schedule_many(pages("B", 2))
    crash(f)
    for _ in range(2):  # as a reader sees it, and as the next run has stored it
        run = history(tmp_path)[0]
        assert (run.end, run.ended, run.leased) == (RunEnd.KILLED, START + 10, None)
        on_disk(tmp_path, clock).close(end=RunEnd.EXIT)


def test_kill_9_is_told(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        Frontier.open(tmp_path / "frontier", program="doomed").commit()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    (run,) = history(tmp_path)
    assert (run.end, run.pid, run.program) == (RunEnd.KILLED, pid, "doomed")


def test_an_error_in_the_block_is_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nonsense"), on_disk(tmp_path):
        raise ValueError("nonsense")
    assert ends(tmp_path) == [(1, RunEnd.ERROR, "ValueError: nonsense")]


def test_an_end_that_cannot_be_committed_is_noted_in_the_lock_file_and_stored_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    f = on_disk(tmp_path, clock)
    f.schedule_many(pages("A", 2))
    env = kernel(f).tables.env

    def full() -> None:
        raise StorageFull("the disk is full")

    monkeypatch.setattr(env, "commit", full)
    clock.advance(30)
    with pytest.raises(StorageFull):
        f.commit()
    f.close(end=RunEnd.EXIT)  # is closed already
    assert ends(tmp_path) == [(1, RunEnd.DISK_FULL, "the disk is full")]
    assert history(tmp_path)[0].ended == START + 30
    with on_disk(tmp_path, clock) as g:
        g.check()
        lock = tmp_path / "frontier" / "lock"
        assert in_child(lock.read_text).answer == f"{os.getpid()} {lock.stat().st_ino}\n"
        assert ends(tmp_path) == [(1, RunEnd.DISK_FULL, "the disk is full"), (2, None, "")]
        crash(g)
    assert ends(tmp_path)[1] == (2, RunEnd.KILLED, ""), "the note is that of another run"


def test_a_commit_of_the_end_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = on_disk(tmp_path)

    def full() -> None:
        raise lmdb.DiskError("no room")

    monkeypatch.setattr(kernel(f).tables.env, "commit", full)
    with pytest.raises(Exception, match="no room"):
        f.close(end=RunEnd.EXIT)
    ((_, end, reason),) = ends(tmp_path)
    assert end is RunEnd.ERROR and "no room" in reason


def test_a_crawl_that_was_terminated_says_by_whom(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 2))
        f.lease(1)
        f.terminate(who="alice", reason="enough")
    assert ends(tmp_path) == [(1, RunEnd.OPERATOR, "terminated by alice (enough)")]
    with on_disk(tmp_path) as f:
        f.adjust(queue_total_budget=5)
    assert len(history(tmp_path)) == 1


def test_only_the_latest_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "MOST_RUNS", 3)
    for _ in range(6):
        on_disk(tmp_path).close(end=RunEnd.EXIT)
    assert [run.number for run in history(tmp_path)] == [4, 5, 6]
    with Reader(tmp_path / "frontier") as reader:
        assert [run.number for run in reader.runs(2)] == [5, 6]


def test_leases_cost_no_row(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        before = rows(f)
        f.schedule_many(pages("AB", 5))
        for lease in f.lease(4):
            f.finish(lease)
        f.commit()
        assert rows(f) == before


def rows(frontier: Frontier) -> list[tuple[bytes, bytes]]:
    return list(kernel(frontier).tables.env.view().items(keys.RUNS))


def test_it_shows_that_it_is_at_work_at_intervals_and_without_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = []
    with on_disk(tmp_path) as f:
        env = kernel(f).tables.env
        monkeypatch.setattr(env, "touch", lambda: touched.append(1))
        times = itertools.count(100.0, 4.0)
        monkeypatch.setattr("budgetfrontier.engine.runs.monotonic", lambda: next(times))
        f.commit()
        before = env.env.info()["last_txnid"]
        for _ in range(5):  # 20 seconds with the one before
            f.commit()
        assert len(touched) == 2
        assert env.env.info()["last_txnid"] == before


@pytest.mark.parametrize(
    ("argument", "name"),
    [("/usr/bin/spider.py", "spider.py"), ("-c", "python"), ("", "python"), ("/x/thing/__main__.py", "thing")],
)
def test_the_name_of_a_program(monkeypatch: pytest.MonkeyPatch, argument: str, name: str) -> None:
    monkeypatch.setattr("sys.argv", [argument, "more"])
    assert this_program() == name
