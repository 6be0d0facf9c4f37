"""Compaction and backups: what they copy, who may do what meanwhile, and what a kill or a full disk leaves."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import lmdb
import lmdb.verify
import pytest

from budgetfrontier import CrawlState, CrawlUri, Directive, Frontier, Reader
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierClosed,
    FrontierError,
    FrontierLocked,
    NotAFrontier,
    StorageFull,
)
from budgetfrontier.storage import backup, environment, lmdb_env, lock_table, seed_list
from budgetfrontier.storage.lmdb_env import open_lmdb, opened_lmdb
from budgetfrontier.storage.seed_list import SeedRow
from tests.crash.disks import disk_or_skip
from tests.crash.line_kills import killed_at_each_line
from tests.sizes import sized
from tests.storage.full_frontier import look
from tests.support import ENDLESS_CRAWL, PATIENCE, child_process, crawl, make_settings, pages

pytestmark = pytest.mark.full_size

HOSTS = "ABCDEFGH"


def made(path: Path, *, commits: int = 2) -> Path:
    """A frontier with free pages in its file: URIs of each host, some crawled, more deleted."""
    with Frontier.open(path, make_settings(hold_queues=False)) as f:
        for commit in range(commits):
            f.schedule_many(pages(HOSTS, 40, first=40 * commit))
            f.schedule_many(CrawlUri(f"https://{host}.test/", directive=Directive.MEDIUM) for host in "abhz")
            f.commit()
        crawl(f, 50)
        f.commit()
        f.delete(queue="h.test")
        f.pause(reason="for the audit")
    return path


def listed_seeds(path: Path) -> list[tuple[int, SeedRow]]:
    """The list of seeds, with the position of each."""
    with Reader(path) as reader, reader.view() as view:
        return list(seed_list.rows(view))


def assert_whole(path: Path) -> None:
    """The file is sound, page by page and record by record."""
    assert lmdb.verify.verify(str(path)) == []  # type: ignore[no-untyped-call]
    with Reader(path) as reader:
        reader.check()


def in_child(work: Callable[[], None]) -> None:
    """Let another process do this, to its end."""
    if pid := os.fork():
        assert os.waitpid(pid, 0) == (pid, 0)
        return
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


# -- compact


def test_a_compact_frontier_is_smaller_and_the_same(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    found, size = look(path), (path / "data.mdb").stat().st_size
    seeds = listed_seeds(path)
    assert len(seeds) == 4 and "SUCCEEDED" in {row.fate for _, row in seeds}
    before, after = backup.compact(path)
    assert listed_seeds(path) == seeds
    assert (before, after) == (size, (path / "data.mdb").stat().st_size)
    assert after < before
    assert look(path) == found
    assert_whole(path)
    assert names(path) == ["data.mdb", "lock", "lock.mdb", "mailbox"]
    with Frontier.open(path) as f:
        f.resume()
        assert len(crawl(f)) == found["summary"]["queued"] > 0
        f.check()


def test_compacting_again_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    backup.compact(path)
    once = (path / "data.mdb").read_bytes()
    assert backup.compact(path) == (len(once), len(once))
    assert_whole(path)


OLD_READER = """
import lmdb, sys
with lmdb.open(sys.argv[1], readonly=True, max_dbs=32, lib_version=0) as env:
    queues = env.open_db(b"queues", create=False)
    for _ in range(2):
        with env.begin() as txn:
            print(txn.stat(queues)["entries"], flush=True)
        sys.stdin.readline()
"""


@contextmanager
def old_reader(path: Path) -> Iterator[Callable[[], int]]:
    """A process that opens the file and keeps it open, unlike a Reader; ask it how many queues it sees."""
    command = [sys.executable, "-c", OLD_READER, str(path)]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout

        def ask() -> int:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return int(process.stdout.readline()) - 1  # type: ignore[union-attr]

        process.stdout.readline()
        yield ask
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("commits", [2, 3])  # the number of the last transaction is even, or odd
def test_whoever_has_the_old_file_open_harms_nobody(tmp_path: Path, commits: int) -> None:
    path = made(tmp_path / "f", commits=commits)
    with old_reader(path) as queues_it_sees:
        backup.compact(path)
        with Frontier.open(path) as f:
            f.schedule_many(pages("XYZ", 100))
            f.commit()
            assert queues_it_sees() == 9
            f.schedule_many(pages("XYZ", 100, first=100))
        assert_whole(path)
    with Frontier.open(path) as f:
        assert f.summary().seen == commits * 320 + 600 + 4  # seeds
        f.check()
    assert_whole(path)


def test_a_file_replaced_by_hand_under_a_reader_is_not_written_to(tmp_path: Path) -> None:
    path, copy = made(tmp_path / "f"), tmp_path / "copy"
    with Reader(path) as reader:
        reader.backup(copy)
    before = (copy / "data.mdb").read_bytes()
    with old_reader(path):
        os.replace(copy / "data.mdb", path / "data.mdb")
        with pytest.raises(FrontierLocked, match="was replaced"):
            Frontier.open(path)
        assert (path / "data.mdb").read_bytes() == before
    with Frontier.open(path) as f:
        f.check()


def in_python(script: str, *arguments: object) -> str:
    """Run a script in a process of its own; returns what it prints."""
    imports = (
        "import sys; from pathlib import Path; from budgetfrontier import *\n"
        "from budgetfrontier.storage import backup\n"
    )
    command = [sys.executable, "-c", imports + script, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


COMPACT = "backup.compact(Path(sys.argv[1]))"
SCHEDULE = "with Frontier.open(sys.argv[1]) as f: f.schedule('https://x.test/')"


def test_a_reader_goes_over_to_the_new_file_when_its_iterators_are_done(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Reader(path) as reader, Reader(path) as another:
        queued = reader.summary().queued
        queues = reader.queues()
        found = [next(queues).queue]
        in_python(COMPACT, path)
        in_python(SCHEDULE, path)
        assert another.summary().queued == queued
        found += [queue.queue for queue in queues]
        assert found == [*(f"{letter.lower()}.test" for letter in HOSTS), "z.test"]
        assert another.summary().queued == reader.summary().queued == queued + 1


def test_a_reader_in_the_same_process_is_in_the_way(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Reader(path), pytest.raises(FrontierLocked, match="already in this process"):
        backup.compact(path)
    backup.compact(path)


def test_an_engine_is_in_the_way(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Frontier.open(path), pytest.raises(FrontierLocked) as caught:
        backup.compact(path)
    assert caught.value.pid == os.getpid()


def test_what_is_no_frontier_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(NotAFrontier):
        backup.compact(tmp_path / "nothing")
    assert names(tmp_path) == []


def test_commands_that_wait_are_kept(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    mailbox = Mailbox(path)
    mailbox.post(Command("retire", {"queue": "a.test"}, "alice", ""))
    backup.compact(path)
    mailbox.post(Command("retire", {"queue": "b.test"}, "bob", ""))  # by one who had it open all the time
    mailbox.close()
    with Frontier.open(path) as f:
        assert [entry.who for entry in f.audit()][-2:] == ["alice", "bob"]


def test_a_copy_that_is_not_the_same_takes_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "f")
    before = (path / "data.mdb").read_bytes()
    copy = backup.copy

    def spoilt(env: lmdb.Environment, path: Path, folder: Path, **options: Any) -> None:
        copy(env, path, folder, **options)
        with opened_lmdb(folder) as other, other.begin(write=True) as txn:
            queues = other.open_db(b"queues", txn=txn)
            txn.replace(b"\0\0\0\1", b"something else", db=queues)

    monkeypatch.setattr(backup, "copy", spoilt)
    with pytest.raises(CorruptFrontier, match="queues"):
        backup.compact(path)
    assert (path / "data.mdb").read_bytes() == before
    assert not (path / lmdb_env.UNFINISHED).exists()


def test_killed_at_any_line_it_was_compact_or_was_not(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    old = (path / "data.mdb").read_bytes()
    shutil.copytree(path, tmp_path / "g")
    backup.compact(tmp_path / "g")
    new = (tmp_path / "g" / "data.mdb").read_bytes()
    assert look(tmp_path / "g") == look(path)
    seen = set()
    for _ in killed_at_each_line(lambda: backup.compact(path), path, backup, environment, lmdb_env, every=sized(3, 1)):
        data = (path / "data.mdb").read_bytes()
        assert data in (old, new)
        seen.add(data)
        backup.compact(path)
        assert names(path) == ["data.mdb", "lock", "lock.mdb", "mailbox"]
        (path / "data.mdb").write_bytes(old)
    assert seen == {old, new}


def test_what_a_kill_left_is_gone_when_it_is_opened(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    (path / lmdb_env.UNFINISHED).mkdir()
    (path / lmdb_env.UNFINISHED / "data.mdb").write_bytes(b"half of it")
    with Frontier.open(path) as f:
        f.check()
    assert not (path / lmdb_env.UNFINISHED).exists()


def test_ctrl_c_in_the_middle_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "f")
    before = (path / "data.mdb").read_bytes()

    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "read", interrupt)
    with pytest.raises(KeyboardInterrupt):
        backup.compact(path)
    with pytest.raises(KeyboardInterrupt), Reader(path) as reader:
        reader.backup(tmp_path / "copy")
    monkeypatch.undo()
    assert (path / "data.mdb").read_bytes() == before
    assert not (path / lmdb_env.UNFINISHED).exists()
    assert names(tmp_path) == ["f"]
    backup.compact(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_the_file_stays_its_owners(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    os.chown(path / "data.mdb", 12345, 23456)
    os.chmod(path / "data.mdb", 0o640)
    backup.compact(path)
    file = (path / "data.mdb").stat()
    assert (file.st_uid, file.st_gid, file.st_mode & 0o7777) == (12345, 23456, 0o640)


def test_little_address_space_is_enough(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    in_python(
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from budgetfrontier.storage.repair.repair_steps import repair\n"
        "backup.compact(Path(sys.argv[1]))\n"
        "with Reader(sys.argv[1]) as reader: reader.backup(sys.argv[2])\n"
        "repair(Path(sys.argv[2]))",
        path, tmp_path / "copy",
    )  # fmt: skip
    assert look(tmp_path / "copy") == look(path)


def test_an_interrupt_while_the_thread_of_a_copy_starts_waits_for_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB crashes or hangs when an environment is closed while a thread copies it."""
    path, start = made(tmp_path / "f"), threading.Thread.start
    begun, ended = threading.Event(), threading.Event()

    class Copied:
        def copyfd(self, fd: int, compact: bool) -> None:
            os.set_blocking(fd, False)
            begun.set()
            with suppress(BrokenPipeError):  # nobody reads on
                for _ in range(500):
                    with suppress(BlockingIOError):
                        os.write(fd, bytes(1 << 16))
                    time.sleep(0.01)
            ended.set()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        assert begun.wait(PATIENCE)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    (tmp_path / "copy").mkdir()
    with pytest.raises(KeyboardInterrupt):
        backup.copy(cast("lmdb.Environment", Copied()), path, tmp_path / "copy")
    assert ended.is_set()


# -- backup


def test_a_backup_is_a_frontier_of_its_own(tmp_path: Path) -> None:
    path, copy = made(tmp_path / "f"), tmp_path / "backups" / "monday"
    with Reader(path) as reader:
        reader.backup(copy)
    assert look(copy) == look(path) and listed_seeds(copy) == listed_seeds(path) != []
    assert_whole(copy)
    assert (copy / "data.mdb").stat().st_size < (path / "data.mdb").stat().st_size
    with Frontier.open(copy) as f:
        f.resume()
        assert len(crawl(f)) == look(path)["summary"]["queued"] > 0
    with Reader(path) as reader:
        assert reader.summary().state is CrawlState.PAUSED


def test_a_backup_of_a_frontier_at_work_is_as_of_a_commit(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with Frontier.open(tmp_path / "f", make_settings(hold_queues=False)) as f:
        f.schedule_many(pages(HOSTS, 500))
        f.commit()
        f.schedule_many(pages("XYZ", 500))
        crawl(f, 100)
        with Reader(tmp_path / "f") as reader:
            reader.backup(copy)
        crawl(f, 100)
    assert_whole(copy)
    with Reader(copy) as reader:
        totals = reader.summary()
        assert (totals.scheduled, totals.queued, totals.succeeded) == (4000, 4000, 0)


def test_backups_while_another_process_crawls(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    with Frontier.open(path) as f:
        f.resume()
    script = ENDLESS_CRAWL
    with child_process([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as crawler:
        try:
            assert crawler.stdout and crawler.stdout.readline() == "running\n"
            done = []
            for number in range(3):
                with Reader(path) as reader:
                    reader.backup(tmp_path / str(number))
                assert_whole(tmp_path / str(number))
                with Reader(tmp_path / str(number)) as reader:
                    done.append(reader.summary().succeeded)
        finally:
            crawler.kill()
    assert done == sorted(done)
    with Frontier.open(path) as f:
        f.check()


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path / "f")
    held, file, link = tmp_path / "held", tmp_path / "file", tmp_path / "link"
    held.mkdir()
    (held / "dear.txt").write_text("dear reader")
    file.write_text("")
    link.symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with Reader(path) as reader:
        for taken, what in (held, "not empty"), (file, "a file"), (link, "a link"), (path, "not empty"):
            with pytest.raises(FrontierError, match=f"is {what}; name a folder"):
                reader.backup(taken)
        reader.backup(tmp_path / "empty")
    assert names(tmp_path) == ["empty", "f", "file", "held", "link"]
    assert names(held) == ["dear.txt"]
    assert_whole(tmp_path / "empty")


def test_a_backup_to_a_place_that_is_taken_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy = made(tmp_path / "f"), tmp_path / "copy"
    with Reader(path) as reader:
        sync = lmdb_env.sync_folder

        def somebody_comes(folder: Path) -> None:
            sync(folder)
            copy.mkdir(exist_ok=True)
            (copy / "mine").write_text("")

        monkeypatch.setattr(backup, "sync_folder", somebody_comes)
        with pytest.raises(FrontierError, match="is not empty"):
            reader.backup(copy)
    assert names(copy) == ["mine"]
    assert names(tmp_path) == ["copy", "f"]


def test_two_backups_to_the_same_place(tmp_path: Path) -> None:
    path, copy = made(tmp_path / "f"), tmp_path / "copy"
    with backup.atomic_folder(copy):
        said = in_python(
            "try: Reader(sys.argv[1]).backup(sys.argv[2])\n"
            "except FrontierLocked as e: print('held by', e.pid)",
            path, copy,
        )  # fmt: skip
    assert said == f"held by {os.getpid()}\n"


def test_a_backup_that_is_aborted_takes_nothing_from_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes a backup to the same place between any two steps of the one that cleans up after itself."""
    path, copy = made(tmp_path / "f"), tmp_path / "copy"
    memory = path / backup.CACHE
    memory.mkdir()
    lock_table.close(open_lmdb(memory, map_size=1 << 20))

    def back_up() -> None:
        with suppress(FrontierLocked), Reader(path) as reader:
            reader.backup(copy)

    def abort(step: int) -> int:
        """Abort a backup, another comes before this step; return how many there were."""
        taken = itertools.count(1)

        def between(function: Callable[..., None]) -> Callable[..., None]:
            def wrapped(*arguments: Any, **options: Any) -> None:
                if next(taken) == step:
                    in_child(back_up)
                function(*arguments, **options)

            return wrapped

        with pytest.raises(KeyboardInterrupt), backup.atomic_folder(copy) as partial:
            (partial / backup.CACHE).mkdir()
            for folder in partial, partial / backup.CACHE:
                (folder / "data.mdb").write_bytes(b"half")
            for name in "unlink", "rmdir":
                monkeypatch.setattr(os, name, between(getattr(os, name)))
            raise KeyboardInterrupt
        monkeypatch.undo()
        return next(taken) - 1

    whole = 0
    for step in itertools.count(1):
        count = abort(step)
        if copy.exists():
            whole += 1
            assert names(copy) == ["crawl", "data.mdb", "lock"] and names(copy / "crawl") == ["data.mdb"]
            assert_whole(copy)
            shutil.rmtree(copy)
        assert names(tmp_path) == ["f"]
        if step > count:
            break
    assert whole


def test_killed_at_any_line_there_is_a_backup_or_none(tmp_path: Path) -> None:
    path, copy = made(tmp_path / "f"), tmp_path / "copy"
    found = look(path)

    def back_up() -> None:
        with Reader(path) as reader:
            reader.backup(copy)

    whole = 0
    for _ in killed_at_each_line(back_up, tmp_path, backup, every=sized(3, 1)):
        if copy.exists():
            whole += 1
        else:
            back_up()
        assert look(copy) == found
        assert names(tmp_path) == ["copy", "f"]
        shutil.rmtree(copy)
    assert whole


def test_a_backup_stops_when_the_frontier_grows_too_much_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Frontier.open(tmp_path / "f", make_settings(hold_queues=False)) as f, Reader(tmp_path / "f") as reader:
        f.schedule_many(pages(HOSTS, 1000))
        f.commit()
        read, turns = os.read, itertools.count(1)

        def crawl_on(*arguments: Any) -> bytes:
            f.schedule_many(pages(HOSTS, 100, first=1000 * next(turns)))
            f.commit()
            return read(*arguments)

        monkeypatch.setattr(os, "read", crawl_on)
        with pytest.raises(FrontierError, match="has grown"):
            reader.backup(tmp_path / "copy", max_growth=0)
        assert names(tmp_path) == ["f"]
        reader.backup(tmp_path / "copy")
        monkeypatch.undo()
        f.check()
    assert_whole(tmp_path / "copy")


def test_a_closed_reader_backs_up_nothing(tmp_path: Path) -> None:
    reader = Reader(made(tmp_path / "f"))
    reader.close()
    with pytest.raises(FrontierClosed):
        reader.backup(tmp_path / "copy")
    assert names(tmp_path) == ["f"]


# -- disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    with disk_or_skip(tmp_path, size=4 << 20) as disk:
        yield disk.folder


@pytest.mark.parametrize("free", [0, 4096, 65_536])
def test_a_disk_that_fills_up_in_the_middle(small_disk: Path, free: int) -> None:
    path = made(small_disk / "f")
    shutil.copytree(path, small_disk.parent / "elsewhere")
    found, before = look(path), (path / "data.mdb").read_bytes()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(filler, filler.stat().st_size - free)
    with pytest.raises(StorageFull, match="as it was") if free else pytest.raises((StorageFull, OSError)):
        backup.compact(path)
    assert (path / "data.mdb").read_bytes() == before
    assert not (path / lmdb_env.UNFINISHED).exists()
    with Reader(small_disk.parent / "elsewhere") as reader, pytest.raises((StorageFull, OSError)):
        reader.backup(small_disk / "copy")
    assert not (small_disk / "copy").exists()
    filler.unlink()
    backup.compact(path)
    assert look(path) == found
    assert_whole(path)
