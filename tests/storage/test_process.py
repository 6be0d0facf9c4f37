"""Who has a frontier open, as of now, and how the last one stopped."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Process, RunEnd
from budgetfrontier.errors import FrontierLocked
from budgetfrontier.storage import lock
from budgetfrontier.storage.lock import LOCK, locked
from budgetfrontier.testing import crash
from tests.crash.processes import in_child
from tests.support import START, on_disk, pages


def process(folder: Path) -> Process:
    with Reader(folder / "frontier") as reader:
        return reader.process()


def test_a_process_that_runs_is_named_with_its_last_commit(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with Frontier.open(tmp_path / "frontier", clock=clock, program="a test") as f:
        clock.advance(7)
        f.schedule_many(pages("A", 2))
        f.commit()
        os.utime(tmp_path / "frontier" / LOCK, (5.0, 5.0))
        found = process(tmp_path)
    assert (found.alive, found.pid, found.program, found.began) == (True, os.getpid(), "a test", START)
    assert (found.last_commit, found.last_call, found.last_stop) == (START + 7, START + 7, None)


@pytest.mark.parametrize(
    ("touched", "now", "last"),
    [(START - 9, START, START), (START + 5, START + 7, START + 5), (5.0, START - 60, 5.0)],
)
def test_the_last_use_is_the_later_of_the_last_touch_and_the_last_commit(
    tmp_path: Path, touched: float, now: float, last: float
) -> None:
    """A commit under a clock that was set back since, which is ahead of this one, is none."""
    path = tmp_path / "frontier"
    with Frontier.open(path, clock=ManualClock(START)), Reader(path, now=lambda: now) as reader:
        os.utime(path / LOCK, (touched, touched))
        assert reader.process().last_call == last


@contextmanager
def open_elsewhere(folder: Path) -> Iterator[int]:
    """Let another process have a frontier open; yield its pid. It is killed at the end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Frontier.open(folder / "frontier", program="another"):
            os.write(write, b"open")
            signal.pause()
    try:
        assert os.read(read, 4) == b"open"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)


def test_another_process_that_runs_is_named(tmp_path: Path) -> None:
    with open_elsewhere(tmp_path) as pid:
        found = process(tmp_path)
        assert (found.alive, found.pid, found.program) == (True, pid, "another")
        assert found.last_call and found.last_commit and found.last_stop is None
    found = process(tmp_path)
    assert not found.alive and found.last_stop and found.last_stop.end is RunEnd.KILLED


@pytest.mark.parametrize("named", [1_000_000, 0])
def test_a_process_in_another_container_is_not_said_to_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: int
) -> None:
    """Its run has the pid that it has there; the kernel names it with its pid here, or with 0."""
    with open_elsewhere(tmp_path):
        monkeypatch.setattr(lock, "holder_of", lambda fd, byte: named if byte else -1)
        found = process(tmp_path)
        assert (found.alive, found.pid, found.program, found.last_stop) == (True, named, "another", None)
        with Reader(tmp_path / "frontier") as reader:
            assert [run.end for run in reader.runs()] == [None]
        with pytest.raises(FrontierLocked, match=f"process {named}" if named else "in another container"):
            Frontier.open(tmp_path / "frontier")


def test_a_process_that_has_stopped_is_told_with_the_way_it_ended(tmp_path: Path) -> None:
    on_disk(tmp_path, ManualClock(START)).close(end=RunEnd.SIGNAL, reason="SIGTERM")
    found = process(tmp_path)
    assert (found.alive, found.pid, found.last_call, found.last_commit) == (False, None, None, START)
    assert found.last_stop and (found.last_stop.end, found.last_stop.reason) == (RunEnd.SIGNAL, "SIGTERM")
    with on_disk(tmp_path):
        found = process(tmp_path)
        assert found.alive and found.last_stop and found.last_stop.number == 1


def test_a_process_that_was_killed_is_told(tmp_path: Path) -> None:
    crash(on_disk(tmp_path, ManualClock(START)))
    found = process(tmp_path)
    assert not found.alive
    assert found.last_stop and (found.last_stop.end, found.last_stop.ended) == (RunEnd.KILLED, START)


def test_a_copy_of_a_frontier_that_is_open_does_not_say_that_it_was_killed(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START)), Reader(tmp_path / "frontier") as reader:
        reader.backup(tmp_path / "copy" / "frontier")
    found = process(tmp_path / "copy")
    assert not found.alive and found.last_stop
    assert (found.last_stop.end, found.last_stop.reason) == (RunEnd.EXIT, "copied while it ran")
    on_disk(tmp_path / "copy").close(end=RunEnd.LIMIT)
    with Reader(tmp_path / "copy" / "frontier") as reader:
        assert [run.end for run in reader.runs()] == [RunEnd.EXIT, RunEnd.LIMIT]
    crash(on_disk(tmp_path / "copy"))
    found = process(tmp_path / "copy")
    assert found.last_stop and found.last_stop.end is RunEnd.KILLED


def test_a_folder_that_was_copied_while_it_was_open_does_not_say_that_it_was_killed(tmp_path: Path) -> None:
    with on_disk(tmp_path / "job", ManualClock(START)):
        shutil.copytree(tmp_path / "job", tmp_path / "copy")
    found = process(tmp_path / "copy")
    assert not found.alive and found.last_stop
    told = (RunEnd.EXIT, "copied while it ran, or after it was killed")
    assert (found.last_stop.end, found.last_stop.reason) == told
    crash(on_disk(tmp_path / "copy"))
    with Reader(tmp_path / "copy" / "frontier") as reader:
        assert [(run.end, run.reason) for run in reader.runs()] == [told, (RunEnd.KILLED, "")]


def test_a_folder_that_was_renamed_says_that_it_was_killed(tmp_path: Path) -> None:
    crash(on_disk(tmp_path / "job"))
    os.rename(tmp_path / "job", tmp_path / "other")
    found = process(tmp_path / "other")
    assert found.last_stop and found.last_stop.end is RunEnd.KILLED


def test_a_command_that_was_killed_is_not_how_the_crawl_stopped(tmp_path: Path) -> None:
    on_disk(tmp_path).close(end=RunEnd.LIMIT, reason="limits.max_uris")
    for _ in range(2):
        crash(Frontier.open(tmp_path / "frontier", program="budgetfrontier adjust"))
        found = process(tmp_path)
        assert found.last_stop and (found.last_stop.number, found.last_stop.end) == (1, RunEnd.LIMIT)
    with Reader(tmp_path / "frontier") as reader:
        assert [run.end for run in reader.runs()] == [RunEnd.LIMIT, RunEnd.KILLED, RunEnd.KILLED]


def test_a_process_that_only_holds_the_lock_is_not_taken_for_a_run(tmp_path: Path) -> None:
    in_child(lambda: crash(on_disk(tmp_path)))
    with locked(tmp_path / "frontier"):
        found = process(tmp_path)
    assert (found.alive, found.pid, found.program, found.began) == (True, os.getpid(), "", None)
    assert found.last_stop and found.last_stop.end is RunEnd.KILLED
