"""A repair as a whole: sound frontiers, random damage, the files, kills and full disks."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierError,
    FrontierLocked,
    NotAFrontier,
    StorageFull,
)
from budgetfrontier.storage import backup, keys, verify
from budgetfrontier.storage.lmdb_env import UNFINISHED, opened_lmdb
from budgetfrontier.storage.repair import repair_steps as repairing
from budgetfrontier.storage.repair.pages import Salvage
from budgetfrontier.storage.repair.repair_steps import repair
from tests.crash import processes
from tests.crash.faults import die
from tests.crash.line_kills import killed_at_each_line
from tests.sizes import sized
from tests.storage.full_frontier import NOW, drain, look, plain
from tests.storage.repair.damaging import PAGE, aside, assert_repaired, damaging, leaves
from tests.support import START, make_settings, on_disk

pytestmark = pytest.mark.full_size

# -- what is sound


def test_a_sound_frontier_comes_through_unchanged(path: Path, drained: list[Any]) -> None:
    verify.verify(path)
    before = look(path)
    done = repair(path)
    assert (done.first_changes, done.changes, done.set_aside, aside(done)) == ([], 0, 0, [])
    verify.verify(path)
    assert look(path) == before
    with Frontier.open(path, clock=(clock := ManualClock(NOW))) as frontier:
        assert drain(frontier, clock) == drained


def test_a_new_frontier_comes_through_unchanged(tmp_path: Path) -> None:
    on_disk(tmp_path, hold_queues=False).close()
    before = look(tmp_path / "frontier")
    assert repair(tmp_path / "frontier").changes == 0
    assert look(tmp_path / "frontier") == before


def test_a_damaged_mailbox_is_set_aside(path: Path) -> None:
    mailbox = Mailbox(path)
    mailbox.post(Command("retire", {"queue": "ready.test"}, "alice", ""))
    mailbox.close()
    verify.verify(path)
    before = look(path)
    file = path / "mailbox" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE] + bytes(PAGE))
    done = assert_repaired(path)
    assert any("mailbox" in line for line in done.first_changes)
    assert (done.folder / "mailbox" / "data.mdb").read_bytes().endswith(bytes(PAGE))
    assert look(path) == before


# -- pages


def test_whatever_page_is_lost_there_is_a_frontier_again(everything: Path, tmp_path: Path) -> None:
    whole = (everything / "data.mdb").read_bytes()
    totals = plain(look(everything)["summary"])
    outcomes = {"sound": 0, "repaired": 0}
    for page in range(0, len(whole) // PAGE, sized(3, 1)):
        path = tmp_path / str(page) / "frontier"
        path.mkdir(parents=True)
        (path / "data.mdb").write_bytes(whole[: page * PAGE] + bytes(PAGE) + whole[(page + 1) * PAGE :])
        try:
            verify.verify(path)
        except (CorruptFrontier, NotAFrontier):
            repair(path)
            outcomes["repaired"] += 1
        else:
            outcomes["sound"] += 1
        verify.verify(path)
        with Frontier.open(path, make_settings(cost_policy="wag"), clock=ManualClock(NOW)) as frontier:
            frontier.check()
            assert frontier.summary().seen >= totals["queued"] + totals["future"] or page < 2
    assert outcomes["repaired"] > sized(5, 15)


def test_uris_whose_print_is_lost_are_not_scheduled_twice(tmp_path: Path) -> None:
    urls = [f"https://h{host}.test/{page}" for host in range(40) for page in range(30)]
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(urls)
        f.schedule(CrawlUri("https://later.test/", not_before=START + 1e6))
        (lease,) = f.lease(1)
        f.finish(lease, Outcome.DEAD)
    path = tmp_path / "frontier"
    page = leaves(path / "data.mdb", keys.SEEN)[1]
    data = bytearray((path / "data.mdb").read_bytes())
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (path / "data.mdb").write_bytes(data)
    done = assert_repaired(path)
    assert any("records are lost" in line for line in done.first_changes)
    with Frontier.open(path, clock=ManualClock(START)) as f:
        assert f.schedule_many([*urls, "https://later.test/"]).added == 0
        assert f.schedule("https://new.test/") == "ADDED"


def test_random_damage_to_records_ends_in_a_sound_frontier(everything: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    for turn in range(sized(8, 25)):
        path = tmp_path / str(turn) / "frontier"
        path.mkdir(parents=True)
        shutil.copy(everything / "data.mdb", path)
        with damaging(path) as damage:
            for _ in range(chance.choice([1, 3, 10])):
                table = chance.choice(keys.TABLES)
                items = [item for item in damage.items(table) if item[0] != b"schema"]  # another one is not touched
                if not items:
                    continue
                key, value = chance.choice(items)
                what = chance.randrange(4)
                if what == 0:
                    damage.txn.delete(key, db=damage.db(table))
                elif what == 1 and value:
                    at = chance.randrange(len(value))
                    damage.put(table, key, value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :])
                elif what == 2:
                    at = chance.randrange(len(key))
                    damage.put(table, key[:at] + bytes([chance.randrange(256)]) + key[at + 1 :], value)
                else:
                    damage.put(table, key, chance.randbytes(len(value)))
        repair(path)
        verify.verify(path)
        with Frontier.open(path, make_settings(cost_policy="wag"), clock=(clock := ManualClock(NOW))) as frontier:
            frontier.check()
            frontier.resume()
            drain(frontier, clock)
            frontier.check()


# -- files


def test_the_damaged_file_is_kept_unless_told_otherwise(path: Path) -> None:
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    before = (path / "data.mdb").read_bytes()
    done = assert_repaired(path)
    assert (done.folder / "data.mdb").read_bytes() == before
    assert (done.folder / "changes.txt").read_text().splitlines() == done.first_changes
    assert done.folder.parent == path.parent and done.folder.name.startswith("frontier-repair-")
    with pytest.raises(CorruptFrontier):
        verify.verify(done.folder)
    shutil.rmtree(done.folder)
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    done = assert_repaired(path, keep_damaged=False)
    assert [item.name for item in done.folder.iterdir()] == ["changes.txt"]


def test_a_disk_without_links_gets_a_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no such links here")

    monkeypatch.setattr(os, "link", refuse)
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    before = (path / "data.mdb").read_bytes()
    assert (assert_repaired(path).folder / "data.mdb").read_bytes() == before


def test_an_engine_is_in_the_way(path: Path) -> None:
    with Frontier.open(path, clock=ManualClock(NOW)), pytest.raises(FrontierLocked):
        repair(path)
    repair(path)


def test_what_is_no_frontier_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(NotAFrontier):
        repair(tmp_path / "nothing")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with opened_lmdb(foreign) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"b", db=env.open_db(b"letters", txn=txn))
    before = (foreign / "data.mdb").read_bytes()
    with pytest.raises((NotAFrontier, CorruptFrontier)):
        repair(foreign)
    assert (foreign / "data.mdb").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["foreign"]


def test_what_would_not_be_sound_takes_no_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> None:
        raise CorruptFrontier("something")

    before = (path / "data.mdb").read_bytes()
    monkeypatch.setattr(repairing, "check", find)
    with pytest.raises(FrontierError, match=r"(?s)unchanged.*something") as caught:
        repair(path)
    assert not isinstance(caught.value, CorruptFrontier)
    assert (path / "data.mdb").read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["frontier"]


def test_killed_at_any_line_it_was_repaired_or_was_not(path: Path) -> None:
    """And the damaged file is never lost."""
    with damaging(path) as damage:
        damage.change_totals(queued=1)
        damage.put(keys.PENDING, damage.items(keys.PENDING)[0][0], b"\xc1")
    damaged = (path / "data.mdb").read_bytes()
    job = path.parent
    outcomes = set()

    def restore() -> None:
        for folder in job.iterdir():
            shutil.rmtree(folder)
        path.mkdir()
        (path / "data.mdb").write_bytes(damaged)

    for _ in killed_at_each_line(lambda: repair(path), job, repairing, backup, every=sized(3, 1)):
        kept = [file for file in job.rglob("data.mdb") if file.read_bytes() == damaged]
        assert kept
        repaired = path / "data.mdb" not in kept
        outcomes.add(repaired)
        if repaired:
            verify.verify(path)
        done = repair(path)
        verify.verify(path)
        assert not list(job.glob("*.partial")) and not (path / UNFINISHED).exists()
        if repaired:  # the folder of the one that was killed is there as well
            assert done.changes == 0 and len(list(job.glob("frontier-repair-*/set-aside.jsonl"))) == 1
        restore()
    assert outcomes == {True, False}


@pytest.mark.parametrize("room", [8, 20, 30])
def test_a_disk_that_fills_up_leaves_it_as_it_was(path: Path, small_disk: Path, room: int) -> None:
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    shutil.copytree(path, small_disk / "frontier")
    before = (path / "data.mdb").read_bytes()
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((disk.f_bavail - room) * disk.f_frsize))
    with pytest.raises((StorageFull, OSError)) as caught:
        repair(small_disk / "frontier")
    assert isinstance(caught.value, StorageFull) or caught.value.errno == errno.ENOSPC  # type: ignore[attr-defined]
    assert (small_disk / "frontier" / "data.mdb").read_bytes() == before
    assert sorted(item.name for item in small_disk.iterdir()) == ["filler", "frontier"]
    (small_disk / "filler").unlink()
    assert_repaired(small_disk / "frontier")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_repair_that_is_killed_on_a_disk_without_links_is_finished_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no such links here")

    replace = backup.replace_data

    def killed(made: Path, folder: Path) -> None:
        if when == "after":
            replace(made, folder)
        die()

    monkeypatch.setattr(os, "link", refuse)
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    before = (path / "data.mdb").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(repairing, "replace_data", killed)
        processes.in_child(lambda: repair(path))
    repair(path)
    verify.verify(path)
    kept = [folder for folder in path.parent.iterdir() if folder != path]
    assert len(kept) == (1 if when == "before" else 2)
    assert before in [(folder / "data.mdb").read_bytes() for folder in kept]


def test_each_table_is_read_by_a_repair(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of one that is forgotten would be lost without a word."""
    read = set[str]()
    records = Salvage.records

    def noted(salvage: Salvage, table: str) -> Iterator[tuple[bytes, bytes]]:
        read.add(table)
        return records(salvage, table)

    monkeypatch.setattr(Salvage, "records", noted)
    repair(path)
    assert set(keys.TABLES) - read == {keys.SEED_KEYS}, "these follow from the seeds"
