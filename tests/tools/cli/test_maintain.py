"""Commands that look after the files: compact, backup, verify --repair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage.lmdb_env import REMEDY
from tests.tools.cli.conftest import Cli


def report(cli: Cli, job: Path) -> object:
    answer = cli("report", job, "--format", "json")
    assert answer.code == 0
    found = json.loads(answer.out)
    del found["generated"], found["process"], found["verdict"]  # a copy has no process
    return found


# -- compact


@pytest.mark.parametrize("size", [0, 100, 8191])
def test_a_mailbox_that_was_cut_short_as_it_was_made_is_no_damage(stopped: Path, cli: Cli, size: int) -> None:
    data = stopped / "frontier" / "mailbox" / "data.mdb"
    data.parent.mkdir(exist_ok=True)
    data.write_bytes(bytes(size))
    assert cli("verify", stopped).code == 0
    assert cli("pause", stopped).out == "RUNNING -> PAUSED\n"
    assert cli("verify", stopped).code == 0


def test_compact_prints_bytes_before_and_after(stopped: Path, cli: Cli) -> None:
    before = report(cli, stopped)
    size = (stopped / "frontier" / "data.mdb").stat().st_size
    answer = cli("compact", stopped)
    after = (stopped / "frontier" / "data.mdb").stat().st_size
    assert (answer.code, answer.out, answer.err) == (0, f"before {size:,} bytes, after {after:,} bytes\n", "")
    assert after < size
    assert report(cli, stopped) == before
    assert cli("verify", stopped).code == 0


def test_compact_names_the_process_that_is_in_the_way(running: Path, cli: Cli) -> None:
    answer = cli("compact", running)
    assert answer.code == 5
    assert f"in use by process {(running / 'frontier' / 'lock').read_text().split()[0]}" in answer.err


# -- backup


def test_a_backup_is_a_job(job: Path, tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "backups" / "monday"
    answer = cli("backup", job, folder)
    size = (folder / "frontier" / "data.mdb").stat().st_size
    assert (answer.code, answer.out, answer.err) == (0, f"{folder / 'frontier'}: {size:,} bytes\n", "")
    assert report(cli, folder) == report(cli, job)
    assert cli("verify", folder).code == 0
    with Frontier.open(folder / "frontier") as frontier:
        assert frontier.settings.crawl == "resting"


def test_a_restore_is_a_copy(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("backup", stopped, tmp_path / "backup").code == 0
    before = report(cli, stopped)
    shutil.rmtree(stopped / "frontier")
    shutil.copytree(tmp_path / "backup", stopped, dirs_exist_ok=True)
    assert report(cli, stopped) == before
    assert cli("retire", stopped, "snoozed.test").code == 0


def test_a_backup_takes_the_place_of_one_that_was_killed(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    partial = tmp_path / "backup" / "frontier.partial"
    partial.mkdir(parents=True)
    (partial / "data.mdb").write_bytes(b"half of it")
    (partial / "lock").write_text("12345\n")
    assert cli("backup", stopped, tmp_path / "backup").code == 0
    assert [item.name for item in (tmp_path / "backup").iterdir()] == ["frontier"]
    assert cli("verify", tmp_path / "backup").code == 0


@pytest.mark.parametrize("held", ["frontier", "dear.txt"])
def test_a_folder_that_holds_something_is_refused(stopped: Path, tmp_path: Path, cli: Cli, held: str) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / held).mkdir()
    (folder / held / "mine").touch()
    answer = cli("backup", stopped, folder)
    assert answer.code == 1 and "is not empty" in answer.err
    assert [item.name for item in folder.iterdir()] == [held]
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in "file", "link":
        answer = cli("backup", stopped, tmp_path / name)
        assert answer.code == 1 and f"{name} is no folder; name one that is empty" in answer.err


def test_a_backup_says_what_a_size_is(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    answer = cli("backup", stopped, tmp_path / "backup", "--max-growth", "lots")
    assert answer.code == 2 and "a size" in answer.err
    assert cli("backup", stopped, tmp_path / "backup", "--max-growth", "64KiB").code == 0


# -- verify --repair


@contextmanager
def damaging(job: Path, table: str = "queues") -> Iterator[lmdb.Transaction[bytes]]:
    with lmdb.open(str(job / "frontier"), max_dbs=32, lib_version=0) as env:
        found = env.open_db(table.encode(), create=False)
        with env.begin(write=True, db=found) as txn:
            yield txn


def lose_a_queue(job: Path) -> None:
    with damaging(job) as txn:
        assert txn.delete(b"\0\0\0\2")  # capped.test


def test_repair_leaves_a_sound_frontier_alone(stopped: Path, cli: Cli) -> None:
    before = (stopped / "frontier" / "data.mdb").read_bytes()
    answer = cli("verify", stopped, "--repair")
    assert (answer.code, answer.out, answer.err) == (0, f"{stopped / 'frontier'}: no damage found\n", "")
    assert (stopped / "frontier" / "data.mdb").read_bytes() == before
    assert [item.name for item in stopped.iterdir()] == ["frontier"]


def test_repair_says_what_it_did_and_where_the_rest_is(stopped: Path, cli: Cli) -> None:
    before = report(cli, stopped)
    lose_a_queue(stopped)
    damaged = (stopped / "frontier" / "data.mdb").read_bytes()
    assert cli("verify", stopped).code == 6
    answer = cli("verify", stopped, "--repair")
    assert answer.code == 0
    assert "does not exist" in answer.err, "the damage is named first"
    assert "queue capped.test: RETIRED, with 3 URIs, 1 spent" in answer.out
    assert answer.out.endswith(f"{stopped / 'frontier'}: repaired\n")
    (folder,) = stopped.glob("frontier-repair-*")
    assert f"{folder}: the damaged file, and all that was changed" in answer.out
    assert (folder / "data.mdb").read_bytes() == damaged
    assert cli("verify", stopped).code == 0
    after = report(cli, stopped)
    assert isinstance(before, dict) and isinstance(after, dict)
    assert after["totals"] == before["totals"]
    assert cli("report", folder).code in (0, 6), "the damaged file is a frontier to look into, as far as it goes"


def test_repair_without_a_backup_keeps_what_it_sets_aside(stopped: Path, cli: Cli) -> None:
    with damaging(stopped) as txn:
        txn.put(b"\0\0\0\2", b"\xc1 nothing that msgpack knows")
    answer = cli("verify", stopped, "--repair", "--no-backup")
    assert answer.code == 0 and "what was set aside (1)" in answer.out
    (folder,) = stopped.glob("frontier-repair-*")
    assert sorted(item.name for item in folder.iterdir()) == ["changes.txt", "set-aside.jsonl"]
    (left_out,) = map(json.loads, (folder / "set-aside.jsonl").read_text().splitlines())
    assert bytes.fromhex(left_out["value"]) == b"\xc1 nothing that msgpack knows"


def test_repair_finds_tables_whose_root_is_lost(stopped: Path, cli: Cli) -> None:
    before = report(cli, stopped)
    data = bytearray((stopped / "frontier" / "data.mdb").read_bytes())
    newest = max(0, 4096, key=lambda page: data[page + 144 : page + 152][::-1])  # by the number of its transaction
    root = int.from_bytes(data[newest + 128 : newest + 136], "little")
    data[root * 4096 : (root + 1) * 4096] = bytes(4096)
    (stopped / "frontier" / "data.mdb").write_bytes(data)
    assert cli("verify", stopped).code == 6
    assert cli("verify", stopped, "--repair").code == 0
    assert report(cli, stopped) == before


def test_a_repair_names_the_process_that_is_in_the_way(
    running: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(path: Path) -> None:
        raise CorruptFrontier("something")

    monkeypatch.setattr("budgetfrontier.storage.verify.verify", find)
    answer = cli("verify", running, "--repair")
    assert answer.code == 5 and "in use by process" in answer.err
    assert [item.name for item in running.iterdir()] == ["frontier"]


def test_what_cannot_be_repaired_is_left_as_it_is(stopped: Path, cli: Cli) -> None:
    (stopped / "frontier" / "data.mdb").write_bytes(bytes(20_000))
    answer = cli("verify", stopped, "--repair")
    assert answer.code == 6 and "restore a backup" in answer.err
    assert (stopped / "frontier" / "data.mdb").read_bytes() == bytes(20_000)
    assert [item.name for item in stopped.iterdir()] == ["frontier"]


def test_verify_says_where_a_contradiction_is_and_what_to_do(stopped: Path, cli: Cli) -> None:
    with damaging(stopped, "queue_ids") as txn:
        txn.put(b"nobody.test", b"\0\0\0\1")
    answer = cli("verify", stopped)
    assert answer.code == 6 and "queue_ids and queues differ in number" in answer.err
    assert f"{stopped / 'frontier'} is damaged; {REMEDY}" in answer.err


@pytest.mark.parametrize("damage", ["bloom", "counters"])
def test_a_repair_says_what_it_does_and_does_not_advise_what_it_is(tmp_path: Path, cli: Cli, damage: str) -> None:
    way = {"duplicates": "bloom", "bloom": {"expected": 16, "error": 1e-9}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": way})) as frontier:
        for number in range(3):
            frontier.schedule(f"http://a{number}.test/")
            frontier.commit()
    if damage == "bloom":
        for file in (tmp_path / "frontier").glob("*.bloom"):
            file.unlink()
    else:
        with damaging(tmp_path, "meta") as txn:
            txn.put(b"counters", b"\xc1")
    assert "restore a backup" in cli("verify", tmp_path).err
    answer = cli("verify", tmp_path, "--repair")
    assert answer.code == 0 and "restore a backup" not in (answer.out + answer.err).lower()
    assert "verify --repair" not in answer.out + answer.err
    if damage == "bloom":
        assert "meta: set aside, " in answer.out and "No such file or directory" in answer.out
        assert "the Bloom filter is lost, and an empty one begun; URIs seen before may be fetched" in answer.out
    (folder,) = tmp_path.glob("frontier-repair-*")
    assert "verify --repair" not in (folder / "changes.txt").read_text()
