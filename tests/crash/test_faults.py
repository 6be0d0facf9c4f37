"""Disks full, damaged or read-only, processes that die or come twice: a named error, and the last commit whole."""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands.mailbox import Mailbox
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierClosed,
    FrontierError,
    FrontierLocked,
    FrontierRemoved,
    NewerSchema,
    NotAFrontier,
    SettingsError,
    StorageFull,
    WrongThread,
)
from budgetfrontier.storage import lock_table
from budgetfrontier.storage.environment import LOOK_AT_READERS
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.lock_table import READERS
from tests.crash import processes
from tests.crash.disks import Disk, disk_or_skip
from tests.crash.faults import die
from tests.sizes import sized
from tests.support import PATIENCE, crawl, logged, make_settings, memory, on_disk, pages, post

pytestmark = pytest.mark.full_size

PAGE = 4096
WHOLE = "whole"


def in_child(work: Callable[[], object]) -> str:
    """What `work` returns in a process of its own, or the name of its error; fails if a signal ends it."""
    ended = processes.in_child(work)
    assert not (ended.signal or ended.hung), ended
    return ended.error or str(ended.answer)


def killed(work: Callable[[], object]) -> None:
    """Do `work` in a process that then dies without another word."""

    def once() -> None:
        work()
        die()

    assert processes.in_child(once).signal == signal.SIGKILL


def made(path: Path, count: int = 3) -> Path:
    """A frontier in a folder, with pages of two hosts."""
    with Frontier.open(path, make_settings(hold_queues=False)) as f:
        f.schedule_many(pages("AB", count))
    return path


def opened(path: Path) -> str:
    with Frontier.open(path) as f:
        f.check()
        return WHOLE


def looked_at(path: Path) -> str:
    with Reader(path) as reader:
        reader.check()
        return WHOLE


# -- disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 4 MiB."""
    with disk_or_skip(tmp_path, size=4 << 20) as disk:
        yield disk


def test_a_disk_that_fills_up_costs_what_was_not_committed(small_disk: Disk) -> None:
    f = Frontier.open(small_disk.folder / "f", make_settings(hold_queues=False))
    f.schedule_many(pages("A", 5))
    f.commit()
    small_disk.fill(2)
    f.schedule_many(pages("BCDEFGH", 1000))
    with pytest.raises(StorageFull):
        f.commit()
    with pytest.raises(FrontierError, match="StorageFull"):
        f.lease(1)
    assert in_child(lambda: looked_at(small_disk.folder / "f")) == WHOLE
    small_disk.clear()
    with Frontier.open(small_disk.folder / "f") as f:
        assert (f.summary().seen, f.summary().scheduled) == (5, 5)
        f.check()
        assert crawl(f) == "AAAAA"


@pytest.mark.parametrize("lock_table", [True, False])
@pytest.mark.parametrize("free", [0, 1, 2, 4, 5, 6, 8, 12])
def test_a_full_disk_kills_nobody_at_open(small_disk: Disk, free: int, lock_table: bool) -> None:
    path = made(small_disk.folder / "f")
    if not lock_table:  # a copy that left it out
        (path / "lock.mdb").unlink()
        shutil.rmtree(path / "mailbox")
    small_disk.fill(free)
    assert in_child(lambda: Frontier.open(small_disk.folder / "new").close()) == "StorageFull"
    shutil.rmtree(small_disk.folder / "new", ignore_errors=True)
    small_disk.clear()
    small_disk.fill(free)
    assert in_child(lambda: looked_at(path)) in (WHOLE, "StorageFull")
    assert in_child(lambda: opened(path)) in (WHOLE, "StorageFull")
    small_disk.clear()
    assert in_child(lambda: opened(path)) == WHOLE
    assert in_child(lambda: opened(made(small_disk.folder / "new"))) == WHOLE


def test_a_folder_that_may_only_be_read(small_disk: Disk) -> None:
    path = made(small_disk.folder / "f")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk.folder)], check=True)
    with pytest.raises(PermissionError, match="cannot write"):
        Frontier.open(path)
    with pytest.raises(PermissionError, match="cannot write"):
        Frontier.open(small_disk.folder / "new")
    assert looked_at(path) == WHOLE
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk.folder)], check=True)
    assert opened(path) == WHOLE


# -- files


def test_a_data_file_cut_short_is_named_and_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path / "f", 2000)
    data = path / "data.mdb"
    whole = data.read_bytes()
    for size in 0, 1, 100, PAGE, 2 * PAGE - 1, 2 * PAGE, 3 * PAGE, len(whole) // 2, len(whole) - PAGE, len(whole) - 1:
        data.write_bytes(whole[:size])
        for use in opened, looked_at:
            assert in_child(lambda use=use: use(path)) == "CorruptFrontier", size  # type: ignore[misc]
        assert data.read_bytes() == whole[:size]
    data.write_bytes(whole)
    assert opened(path) == WHOLE


def test_a_damaged_data_file_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "f", 50)
    data = path / "data.mdb"
    whole = data.read_bytes()
    chance = random.Random(7)
    damages = [range(PAGE), range(2 * PAGE), range(2 * PAGE, len(whole) - PAGE)]
    for damage in damages:
        data.write_bytes(bytes(chance.randrange(256) if place in damage else byte for place, byte in enumerate(whole)))
        before = data.read_bytes()
        answer = in_child(lambda: Frontier.open(path).close())
        assert answer in ("CorruptFrontier", "NotAFrontier") or damage == damages[0], answer
        if answer != "None":
            assert data.read_bytes() == before


def test_a_lost_page_is_named_at_open(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    data = path / "data.mdb"
    whole = data.read_bytes()
    named = 0
    for start in range(2 * PAGE, len(whole), sized(3, 1) * PAGE):
        for use in lambda: Frontier.open(path).close(), lambda: Reader(path).close():
            data.write_bytes(whole[:start] + bytes(PAGE) + whole[start + PAGE :])
            ended = processes.in_child(use)
            assert ended.named or not ended.error, ended
            named += ended.named
    assert named


@pytest.mark.parametrize("name", ["counters", "settings", "adjustments", "schema"])
def test_a_damaged_record_is_named(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "f")
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.put(name.encode(), b"\xc1 damaged", db=env.open_db(b"meta", txn=txn))
    lock_table.close(env)
    with pytest.raises(CorruptFrontier):
        Frontier.open(path)
    with pytest.raises(CorruptFrontier), Reader(path) as reader:
        reader.report()


def test_a_damaged_queue_record_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.put(bytes((0, 0, 0, 1)), b"\xc1", db=env.open_db(b"queues", txn=txn))
    lock_table.close(env)
    with pytest.raises(CorruptFrontier), Reader(path) as reader:
        reader.check()
    f = Frontier.open(path)
    with pytest.raises(CorruptFrontier):
        f.lease(1)
    with pytest.raises(FrontierError, match="closed"):
        f.lease(1)


def test_what_is_no_frontier_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear reader")
    (tmp_path / "file").write_text("")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    lock_table.close(open_lmdb(foreign))
    for path in tmp_path / "letters", tmp_path / "file", foreign:
        before = sorted(p.name for p in path.iterdir()) if path.is_dir() else None
        with pytest.raises(NotAFrontier):
            Frontier.open(path)
        with pytest.raises(NotAFrontier):
            Reader(path)
        if path != foreign:
            assert (sorted(p.name for p in path.iterdir()) if path.is_dir() else None) == before
    with pytest.raises(NotAFrontier):
        Reader(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_another_schema_is_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.put(b"schema", b"99", db=env.open_db(b"meta", txn=txn))
    lock_table.close(env)
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(NewerSchema, match="schema 99"):
        Frontier.open(path)
    with pytest.raises(NewerSchema):
        Reader(path)
    assert (path / "data.mdb").read_bytes() == before


# -- processes


def test_a_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    def second() -> str:
        try:
            Frontier.open(tmp_path / "frontier")
        except FrontierLocked as e:
            return f"{e.pid} {str(e.pid) in str(e)}"
        return "opened"

    with on_disk(tmp_path, hold_queues=False):
        assert in_child(second) == f"{os.getpid()} True"
        with pytest.raises(FrontierLocked) as caught:
            on_disk(tmp_path)
        assert caught.value.pid == os.getpid()
        assert in_child(second) == f"{os.getpid()} True", "our own failed attempt dropped our lock"
    assert in_child(lambda: opened(tmp_path / "frontier")) == WHOLE


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("A", 3))
        lease = f.lease(1)[0]
        calls: list[Callable[[], object]] = [
            lambda: f.schedule("https://b.test/"),
            lambda: f.schedule_many(pages("B", 3)),
            lambda: f.lease(1),
            lambda: f.finish(lease),
            lambda: f.renew(lease),
            f.summary,
            lambda: f.state,
            lambda: f.queue("a.test"),
            lambda: f.adjust(queue_total_budget=1),
            lambda: f.retire("a.test"),
            f.commit,
            f.close,
            f.check,
        ]
        for call in calls:
            assert in_child(call) == WrongThread.__name__
        f.finish(lease)
        assert crawl(f) == "AA"
        f.check()


def test_lease_ids_are_new_after_each_crash(tmp_path: Path) -> None:
    ids: list[int] = []
    for life in range(4):
        with on_disk(tmp_path, hold_queues=False, concurrency=5) as f:
            f.schedule_many(pages("A", 5))
            ids += [lease.id for lease in f.lease(3)]
            if life % 2:
                f.commit()

        def crashing() -> None:
            f = on_disk(tmp_path)
            f.lease(3)

        killed(crashing)
    assert ids == sorted(set(ids))
    assert opened(tmp_path / "frontier") == WHOLE


def test_readers_of_one_process_share(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Reader(path) as first, Reader(path) as second:
        assert first.summary() == second.summary()
        first.close()
        first.close()
        assert second.report().totals.queued == 6
        with pytest.raises(FrontierLocked, match="by a reader"):
            Frontier.open(path)
    f = Frontier.open(path)
    with Reader(path) as reader:
        f.close()
        with pytest.raises(FrontierClosed):
            reader.summary()
    assert opened(path) == WHOLE


def test_a_forked_child_may_read_what_its_parent_reads(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Reader(path) as reader:
        assert in_child(lambda: looked_at(path)) == WHOLE
        assert reader.summary().queued == 6


def test_a_reader_that_never_ends_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "frontier"
    with on_disk(tmp_path, hold_queues=False) as f, Reader(path) as reader:
        f.schedule_many(pages("AB", 3))
        f.commit()
        rows = reader.queues()
        first = next(rows)
        for number in range(2 * LOOK_AT_READERS):
            f.schedule(f"https://a.test/more/{number}")
            f.commit()
        assert [first, *rows]
        assert f"process {os.getpid()} has been reading {path}" in caplog.text
        told = logged(caplog, "budgetfrontier.store")
        for number in range(LOOK_AT_READERS):
            f.schedule(f"https://b.test/more/{number}")
            f.commit()
        assert logged(caplog, "budgetfrontier.store") == told


def test_more_readers_than_may_look_at_once_are_told(tmp_path: Path) -> None:
    with Reader(made(tmp_path / "f")) as reader:
        looking = [reader.queues() for _ in range(READERS + 1)]
        with pytest.raises(FrontierError, match=f"{READERS} readers"):
            for rows in looking:
                next(rows)


def test_readers_pin_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "f")

    def killed_in_mid_read() -> None:
        next(Reader(path).queues())

    with on_disk(tmp_path, hold_queues=False) as f, Reader(tmp_path / "frontier") as idle:
        f.schedule_many(pages("AB", 3))
        f.commit()
        idle.summary()
    killed(killed_in_mid_read)
    with Frontier.open(path) as f, Reader(path) as idle:
        idle.summary()
        before = (path / "data.mdb").stat().st_size
        for number in range(300):
            f.schedule(f"https://a.test/more/{number}")
            f.commit()
        assert (path / "data.mdb").stat().st_size < before + 100 * PAGE


def test_nothing_stays_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    path = made(tmp_path / "f")
    (tmp_path / "file").write_text("")
    before = open_files()
    for _ in range(5):
        assert opened(path) == looked_at(path) == WHOLE
        memory().close()
        with Frontier.open(path), pytest.raises(FrontierLocked):
            Frontier.open(path)
        with pytest.raises(NotAFrontier):
            Frontier.open(tmp_path / "file")
        with pytest.raises(SettingsError):
            Frontier.open(path, make_settings(canonicalization={"strip_www": False}))
    assert open_files() == before


# -- the mailbox


WRONG_COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("retire", {}),
    ("retire", {"queue": None}),
    ("snooze", {"queue": "a.test"}),
    ("snooze", {"queue": "a.test", "until": math.nan}),
    ("adjust", {}),
    ("adjust", {"match": 5, "set": 5}),
    ("adjust", {"match": "*", "set": {}}),
    ("delete", {"queue": 5}),
    ("delete", {"pattern": [1]}),
    ("replay", {"ids": 5}),
    ("drop", {"ids": [[1]]}),
    ("schedule", {}),
    ("schedule", {"uris": 5}),
    ("schedule", {"uris": [{"nope": 1}]}),
    ("nonsense", {}),
]


def test_wrong_commands_are_refused_or_answered_and_end_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    posted = []
    for op, args in WRONG_COMMANDS:
        with suppress(FrontierError):  # of types that no command has
            posted.append(post(path, op, **args))
    assert len(posted) > 5
    post(path, "schedule", uris=[None, {"url": 5}, {"url": "https://c.test/", "cost": 0.0}, "https://d.test/"])
    with Frontier.open(path) as f:
        entries = f.audit()
        assert [bool(entry.error) for entry in entries] == [True] * len(posted) + [False]
        assert entries[-1].effect["added"] == 1
        f.check()


def test_a_command_is_applied_once_though_killed_before_it_is_taken_out(tmp_path: Path) -> None:
    path = made(tmp_path / "f")

    def dies_after_applying() -> None:
        f = Frontier.open(path)
        # The kill has to come between two steps of one commit.
        Mailbox.done = lambda self, upto: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        post(path, "adjust", match="*", set={"queue_total_budget": 5})
        post(path, "adjust", match="*", set={"queue_total_budget": 6})
        f.commit()

    killed(dies_after_applying)
    for _ in range(2):
        with Frontier.open(path) as f:
            assert [entry.effect["after"]["queue_total_budget"] for entry in f.audit()] == [5, 6]
    assert post(path, "pause") == 3


def test_a_lost_mailbox_gives_out_no_number_twice(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    for _ in range(3):
        post(path, "pause")
    with Frontier.open(path) as f:
        assert str(f.state) == "PAUSED"
    shutil.rmtree(path / "mailbox")
    with Frontier.open(path) as f:
        assert post(path, "resume") == 4
        f.commit()
        assert str(f.state) == "RUNNING"


def test_a_damaged_mailbox_is_named_and_may_be_deleted(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    (path / "mailbox" / "data.mdb").write_bytes(bytes(3 * PAGE))
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(CorruptFrontier, match="mailbox"):
        Frontier.open(path)
    assert (path / "data.mdb").read_bytes() == before, "nothing was written"
    shutil.rmtree(path / "mailbox")
    assert opened(path) == WHOLE


def test_threads_that_open_at_once_do_not_hang(tmp_path: Path) -> None:
    path = made(tmp_path / "f")

    def race() -> str:
        answers: list[str] = []
        together = threading.Barrier(8)

        def open_it() -> None:
            together.wait()
            try:
                frontiers.append(Frontier.open(path))
            except FrontierError as e:
                answers.append(type(e).__name__)

        frontiers: list[Frontier] = []
        threads = [threading.Thread(target=open_it, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        return f"{len(frontiers)} {set(answers)}"

    assert in_child(race) == "1 {'FrontierLocked'}"


STEER = """\
import sys
from budgetfrontier.engine.remote import steer
print(steer(*sys.argv[1:], {}).effect["after"]["state"])
"""


def test_commands_arrive_although_the_mailbox_was_removed(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Frontier.open(path) as f:
        for op, expected in ("pause", "PAUSED"), ("resume", "RUNNING"), ("pause", "PAUSED"):
            command = [sys.executable, "-c", STEER, str(path), op]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                while process.poll() is None:
                    f.commit()
                    time.sleep(0.02)
                assert process.stdout is not None and process.stdout.read() == f"{expected}\n"
            assert str(f.state) == expected
            shutil.rmtree(path / "mailbox")


def test_a_mailbox_is_not_made_where_a_frontier_was_removed(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    f = Frontier.open(path)
    shutil.rmtree(path)
    with pytest.raises(FrontierRemoved):
        f.commit()
    assert not path.exists()
