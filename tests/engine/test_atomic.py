"""Atomic batches: all of their calls and the note are stored, or none, whatever happens in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import atomic
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import FrontierBusy, FrontierClosed, FrontierError, PolicyError, WrongThread
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.testing import crash
from tests.crash import processes
from tests.support import PATIENCE, START, kernel, memory, on_disk, one, pages


def note_of(frontier: Frontier) -> bytes | None:
    return frontier.note


def test_a_batch_and_its_note_are_there_after_a_crash(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    with f.atomic(note=b"offset 7") as batch:
        assert note_of(f) is None
        f.schedule_many(pages("AB", 3))
        f.finish(one(f))
        assert batch.note == b"offset 7"
    assert f.note == b"offset 7"
    f.schedule("https://later.test/")
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.note == b"offset 7"
        assert (f.summary().seen, f.summary().succeeded) == (6, 1)
        with f.atomic() as batch:
            f.schedule("https://later.test/")
            batch.note = b""
        assert f.note == b""
        with f.atomic():
            f.schedule("https://later.test/2")
        assert f.note == b""  # until another is given
        f.check()


def test_nothing_is_committed_before_the_end(tmp_path: Path) -> None:
    with on_disk(tmp_path, commit_operations=10, commit_interval=0.001) as f, Reader(tmp_path / "frontier") as reader:
        with f.atomic(note=b"1") as batch:
            for number in range(100):
                f.schedule(f"https://a.test/{number}")
                f.lease(2)
                time.sleep(0.0001)
            assert batch.full  # more than a commit usually has
            assert reader.summary().seen == 0
        assert reader.summary().seen == 100


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), PolicyError("policy", policy="x")])
def test_a_block_that_raises_leaves_nothing_and_closes(tmp_path: Path, error: BaseException) -> None:
    f = on_disk(tmp_path)
    f.schedule("https://before.test/")
    f.commit()
    with pytest.raises(type(error)), f.atomic(note=b"never"):
        f.schedule_many(pages("AB", 3))
        raise error
    with pytest.raises(FrontierClosed, match="atomic batch has failed"):
        f.schedule("https://a.test/")
    with on_disk(tmp_path) as f:
        assert (f.summary().seen, f.note) == (1, None)
        f.check()


def test_errors_that_the_block_catches_change_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        with f.atomic(note=b"1"):
            f.schedule("https://a.test/")
            with pytest.raises(ValueError, match="seconds"):
                f.lease(ttl=-1.0)
            with pytest.raises(FrontierError, match="nested"), f.atomic():
                pass
            with pytest.raises(FrontierError, match="at its end"):
                f.commit()
            with pytest.raises(FrontierError, match="after the atomic batch"):
                f.delete(queue="*")
            with pytest.raises(FrontierError, match="after the atomic batch"):
                f.replay()
            f.adjust(match="queue:a.test", queue_total_budget=0)
            f.retire("a.test")
        assert (f.note, f.summary().seen, [entry.command for entry in f.audit()]) == (b"1", 1, ["adjust", "retire"])


def test_a_close_in_the_block_drops_the_batch(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    with pytest.raises(FrontierClosed, match="close"), f.atomic(note=b"1"):
        f.schedule("https://a.test/")
        f.close()
    with on_disk(tmp_path) as f:
        assert (f.summary().seen, f.note) == (0, None)


def test_a_batch_that_is_too_large_stores_nothing(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    with pytest.raises(FrontierError, match="more than"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "MOST_OPERATIONS", 50)
        with f.atomic(note=b"1"):
            for number in range(100):
                f.schedule(f"https://a.test/{number}")
    with on_disk(tmp_path) as f:
        assert (f.summary().seen, f.note) == (0, None)


@pytest.mark.parametrize(("most", "room", "allowed"), [(50, 1000, 49), (1000, 50, 44)])
def test_a_batch_has_so_many_operations_or_as_many_as_the_map_has_room_for(
    most: int, room: int, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before the batch takes room of the map as well."""
    monkeypatch.setattr(atomic, "MOST_OPERATIONS", most)
    f = on_disk(tmp_path)
    f.schedule("https://first.test/")  # it changes the state of the crawl, too
    f.commit()
    monkeypatch.setattr(kernel(f).tables.env, "operations", room)
    f.schedule_many(pages("A", 5))
    with pytest.raises(FrontierError, match=f"more than {allowed} operations"), f.atomic():
        for number in range(allowed):
            f.schedule(f"https://b.test/{number}")
        with pytest.raises(FrontierError, match="at its end"):
            f.commit()  # it is still in progress
        f.schedule("https://b.test/last")


@pytest.mark.parametrize(("before", "committed"), [(24, 0), (25, 25)])
def test_what_came_before_a_batch_is_committed_if_it_is_half_of_a_commit(
    before: int, committed: int, tmp_path: Path
) -> None:
    with on_disk(tmp_path, commit_operations=50) as f, Reader(tmp_path / "frontier") as reader:
        f.schedule("https://first.test/")  # it changes the state of the crawl, too
        f.commit()
        f.schedule_many(pages("A", before))
        with f.atomic():
            assert reader.summary().seen == 1 + committed
        assert reader.summary().seen == 1 + before


@pytest.mark.parametrize(("most", "usual", "enough"), [(1000, 20, 20), (30, 20, 15)])
def test_a_batch_is_full_with_as_much_as_a_commit_has_or_half_of_what_it_may_have(
    most: int, usual: int, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "MOST_OPERATIONS", most)
    with on_disk(tmp_path, commit_operations=usual) as f:
        f.schedule_many(pages("A", 5))
        with f.atomic() as batch:
            f.schedule_many(pages("B", enough - 1))
            assert not batch.full
            f.schedule("https://b.test/last")
            assert batch.full


@pytest.mark.parametrize(
    ("note", "error"), [("text", TypeError), (5, TypeError), (b"x" * (16 << 20) + b"x", ValueError)]
)
def test_what_is_no_note_is_refused(tmp_path: Path, note: Any, error: type[Exception]) -> None:
    with on_disk(tmp_path) as f, pytest.raises(error, match="note"), f.atomic(note=note):
        f.schedule("https://a.test/")
    with on_disk(tmp_path) as f:
        assert (f.summary().seen, f.note) == (0, None)


def test_hooks_run_after_the_batch() -> None:
    class Hook:
        def __init__(self) -> None:
            self.notes: list[bytes | None] = []

        def on_dead_letter(self, frontier: Frontier, letter: object) -> None:
            self.notes.append(frontier.note)

    hook = Hook()
    with memory(hooks=[hook]) as f:
        f.schedule("https://a.test/")
        with f.atomic(note=b"1"):
            f.finish(one(f), Outcome.DEAD, reason="gone")
            assert hook.notes == []
        assert hook.notes == [b"1"]


def test_commands_of_other_processes_wait_for_the_end_and_come_between_batches(tmp_path: Path) -> None:
    with on_disk(tmp_path, commit_interval=0.001) as f:
        f.schedule_many(pages("AB", 3))
        f.commit()
        mailbox = f._delivery.mailbox
        assert mailbox is not None
        mailbox.post(Command("pause", {"reason": "x"}, "someone", ""))
        with f.atomic():
            for number in range(20):
                f.schedule(f"https://c.test/{number}")
                time.sleep(0.001)
            assert f.audit() == []
        assert [entry.command for entry in f.audit()] == ["pause"]


WORKER = """
import os, sys, time
from random import Random
from budgetfrontier import CrawlUri, Finish, Frontier, Outcome
random = Random(int(sys.argv[2]))
f = Frontier.open(sys.argv[1])
while True:
    at = int(f.note or b"0")
    with f.atomic() as batch:
        for number in range(at, at + random.randrange(1, 400)):
            f.schedule(f"https://host{number % 7}.test/{number}")
            at = number + 1
        for lease in f.lease(random.randrange(0, 50)):
            f.finish(lease)
        batch.note = b"%d" % at
    print(at, flush=True)
"""


def test_offsets_and_effects_are_the_same_at_any_kill(tmp_path: Path) -> None:
    random = Random(7)
    acknowledged = 0
    for seed in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path / "frontier"), str(seed)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(random.randrange(2, 12)):
            acknowledged = int(process.stdout.readline())
        time.sleep(random.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate(timeout=PATIENCE)[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        with Frontier.open(tmp_path / "frontier") as f:
            stored = int(f.note or b"0")
            assert stored >= acknowledged
            assert f.summary().seen == stored
            f.check()


def test_the_note_is_in_copies_and_survives_a_repair(tmp_path: Path) -> None:
    note = bytes(range(256)) * 100  # on overflow pages
    with on_disk(tmp_path) as f, f.atomic(note=note):
        f.schedule_many(pages("AB", 3))
    path = tmp_path / "frontier"
    compact(path)
    with Reader(path) as reader:
        reader.backup(tmp_path / "copy" / "frontier")
    data = tmp_path / "copy" / "frontier" / "data.mdb"
    pages_of = [data.read_bytes()[at : at + 4096] for at in range(0, data.stat().st_size, 4096)]
    lost = next(n for n, page in enumerate(pages_of) if n > 1 and b"https" not in page and note[:64] not in page)
    data.write_bytes(b"".join(page if n != lost else bytes(4096) for n, page in enumerate(pages_of)))
    repair(data.parent)
    for folder in (tmp_path, data.parent.parent):
        with on_disk(folder) as f:
            assert (f.note, f.summary().seen) == (note, 6)
            f.check()


def test_another_thread_closes_no_frontier_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    f, errors = on_disk(tmp_path), list[type[BaseException]]()

    def close() -> None:
        try:
            f.close()
        except FrontierError as error:
            errors.append(type(error))

    with f.atomic(note=b"1"):
        f.schedule("https://a.test/")
        thread = threading.Thread(target=close)
        thread.start()
        thread.join()
        assert processes.in_child(f.close).error == "WrongThread"
        f.schedule("https://b.test/")
    assert errors == [WrongThread]
    assert (f.note, f.summary().queued) == (b"1", 2)
    f.close()


def test_a_signal_handler_closes_no_frontier_in_the_middle_of_a_call_of_a_batch(tmp_path: Path) -> None:
    class Closing(ManualClock):
        errors: list[type[BaseException]] | None = None

        def time(self) -> float:
            if self.errors is not None:
                try:
                    f.close()
                except FrontierError as error:
                    self.errors.append(type(error))
            return super().time()

    clock = Closing(START)
    f = Frontier.open(tmp_path / "frontier", clock=clock)
    with f.atomic():
        clock.errors = []
        f.schedule_many(["https://a.test/"])
        errors, clock.errors = clock.errors, None
    assert set(errors) == {FrontierBusy}
    f.close()
