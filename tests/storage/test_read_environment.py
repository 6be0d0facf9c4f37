"""The environment that all readers of a process share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from budgetfrontier.errors import CorruptFrontier, NotAFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.read_environment import ReadEnvironment
from tests.crash.processes import in_child


def records(shared: ReadEnvironment, table: str = keys.QUEUES) -> int:
    with shared.begin() as txn:
        return int(txn.stat(shared.db[table])["entries"])


def test_all_who_join_have_one_and_the_last_to_leave_closes_it(path: Path) -> None:
    first, second = ReadEnvironment.join(path), ReadEnvironment.join(path.parent / "." / path.name)
    assert first is second and records(first) > 1
    first.leave()
    assert records(second) > 1
    second.leave()
    again = ReadEnvironment.join(path)
    assert again is not first
    again.leave()


def test_a_file_that_replaced_another_is_opened_once_no_snapshot_is_held(path: Path, tmp_path: Path) -> None:
    shared = ReadEnvironment.join(path)
    before = records(shared)
    env = open_lmdb(shutil.copytree(path, tmp_path / "other"))
    with env.begin(write=True) as txn:
        queues = env.open_db(keys.QUEUES.encode(), txn=txn)
        assert txn.pop(keys.SENTINEL, db=queues) == b""
    lock_table.close(env)
    with shared.begin():
        (tmp_path / "other" / "data.mdb").replace(path / "data.mdb")
        (path / "lock.mdb").unlink()
        assert records(shared) == before
    assert records(shared) == before - 1
    shared.leave()


def test_readers_register_in_the_lock_file_that_is_there(path: Path) -> None:
    shared = ReadEnvironment.join(path)
    assert records(shared) > 1
    (path / "lock.mdb").unlink()
    for _ in range(3):
        records(shared)
    with shared.begin():
        assert lock_table.is_lost(shared.env, path / "lock.mdb") is False
        assert (path / "lock.mdb").exists()
    shared.leave()


def test_a_forked_child_opens_its_own(path: Path) -> None:
    shared = ReadEnvironment.join(path)
    expected = records(shared)

    def look() -> tuple[bool, int]:
        own = ReadEnvironment.join(path)
        return own is shared, records(own)

    assert in_child(look).answer == (True, expected)
    assert in_child(lambda: records(shared)).answer == expected, "also through one of its parent's readers"
    with shared.begin():
        assert in_child(look).answer == (True, expected)
    assert records(shared) == expected
    shared.leave()


def test_what_is_no_frontier_is_not_shared(tmp_path: Path) -> None:
    lock_table.close(open_lmdb(tmp_path))
    with pytest.raises(NotAFrontier):
        ReadEnvironment.join(tmp_path)
    lock_table.close(open_lmdb(tmp_path))  # it was given back


def test_a_file_that_cannot_be_opened_is_tried_again(path: Path) -> None:
    """Such as one that is just being restored."""
    shared, data = ReadEnvironment.join(path), path / "data.mdb"
    expected, content = records(shared), data.read_bytes()
    data.unlink()
    for _ in range(2):
        with pytest.raises(NotAFrontier, match=r"there is no frontier at .* any more"):
            records(shared)
    data.write_bytes(content[: len(content) // 2])
    for _ in range(2):
        with pytest.raises(CorruptFrontier, match="truncated"):
            records(shared)
    data.write_bytes(content)
    assert records(shared) == expected
    shared.leave()
