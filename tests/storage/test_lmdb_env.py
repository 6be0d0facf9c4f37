"""LMDB environments: made whole or not at all, opened where memory is short, and what LMDB's errors mean."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import lmdb
import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierError,
    FrontierLocked,
    NewerSchema,
    NotAFrontier,
    StorageFull,
)
from budgetfrontier.storage import keys, lmdb_env, lock_table
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.lmdb_env import (
    UNFINISHED,
    check_files,
    create_environment,
    is_unfinished,
    open_lmdb,
    open_tables,
    publish,
    translate_error,
)
from tests.crash.line_kills import killed_at_each_line


def test_too_many_open_files_are_told_with_the_limit_to_raise() -> None:
    told = translate_error(OSError(errno.EMFILE, "Too many open files", "job/lock.mdb"), Path("job"))
    assert type(told) is FrontierError and "raise the limit of open files (`ulimit -n`)" in str(told)


def test_a_kill_while_it_is_made_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    outcomes = set()

    def make() -> None:
        path.mkdir()
        create_environment(path)
        publish(path)

    for _ in killed_at_each_line(make, tmp_path, lmdb_env):
        whole = path.exists() and check_files(path)
        outcomes.add(whole)
        if whole:
            env = open_lmdb(path)
            assert set(open_tables(env, path)) == set(keys.TABLES)
            lock_table.close(env)
        shutil.rmtree(path, ignore_errors=True)
    assert outcomes == {True, False}


def test_what_is_in_a_folder_decides_whether_one_may_be_made_there(tmp_path: Path) -> None:
    assert not check_files(tmp_path / "none") and not check_files(tmp_path)
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / "lock").touch()
    assert not check_files(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NotAFrontier, match=r"it holds notes\.txt"):
        check_files(tmp_path)
    with pytest.raises(NotAFrontier, match="is a file"):
        check_files(tmp_path / "notes.txt")
    (tmp_path / "data.mdb").touch()
    assert is_unfinished(tmp_path / "data.mdb")
    with pytest.raises(CorruptFrontier, match="0 bytes"):
        check_files(tmp_path)


def test_the_map_is_halved_until_it_fits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, opened = [], lmdb.open

    def short(name: str, *, map_size: int, **options: object) -> lmdb.Environment:
        sizes.append(map_size)
        if map_size > 1 << 31:
            raise lmdb.MemoryError("no address space")
        return opened(name, map_size=map_size, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lmdb, "open", short)
    env = open_lmdb(path)
    assert env.info()["map_size"] == sizes[-1] == 1 << 31
    assert sizes == sorted(set(sizes), reverse=True)
    lock_table.close(env)


@pytest.mark.parametrize(
    ("stored", "error", "told"),
    [
        (str(keys.SCHEMA + 1).encode(), NewerSchema, f"schema {keys.SCHEMA + 1}"),
        (b"none", CorruptFrontier, "its schema is"),
        (b"0", CorruptFrontier, "its schema is"),
    ],
)
def test_schemas(path: Path, stored: bytes, error: type[Exception], told: str) -> None:
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.put(b"schema", stored, db=env.open_db(keys.META.encode(), txn=txn))
    with pytest.raises(error, match=told):
        open_tables(env, path)
    lock_table.close(env)


@pytest.mark.parametrize("table", [keys.DEAD, keys.RUNS])
def test_a_table_that_is_lost_is_damage(path: Path, table: str) -> None:
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(table.encode(), txn=txn))
    lock_table.close(env)
    env = open_lmdb(path)
    with pytest.raises(CorruptFrontier):
        open_tables(env, path)
    lock_table.close(env)


@pytest.mark.parametrize(
    ("error", "expected", "told"),
    [
        (lmdb.CorruptedError("x"), CorruptFrontier, "is damaged or not an LMDB file"),
        (Damage("a record"), CorruptFrontier, "a record"),
        (lmdb.Error("already open in this process"), FrontierLocked, "by a reader"),
        (lmdb.ReadersFullError("x"), FrontierError, "readers have it open already"),
        (lmdb.ReadonlyError("x"), PermissionError, "cannot write"),
        (OSError(errno.EROFS, "x"), PermissionError, "cannot write"),
        (lmdb.MapFullError("x"), StorageFull, "memory map"),
        (OSError(errno.ENOSPC, "x"), StorageFull, "is full; free some space and try again: nothing that was committed"),
        (OSError(errno.EIO, "x"), FrontierError, "open the frontier again"),
        (OSError(errno.ENOLCK, "x"), FrontierError, "put it on a local disk"),
        (OSError(errno.ENODEV, "x"), FrontierError, "put it on a local disk"),
        (OSError(errno.ENAMETOOLONG, "x"), NotAFrontier, "or name another folder"),
    ],
)
def test_errors_have_names_and_say_what_to_do(
    tmp_path: Path, error: Exception, expected: type[Exception], told: str
) -> None:
    translated = translate_error(error, tmp_path)
    assert type(translated) is expected and told in str(translated)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES])
def test_a_message_names_the_file_of_an_error_of_the_system_as_a_path(number: int, tmp_path: Path) -> None:
    message = str(translate_error(OSError(number, os.strerror(number), tmp_path / "lock.mdb"), tmp_path))
    assert f"{os.strerror(number)}: {tmp_path / 'lock.mdb'}" in message and "PosixPath" not in message


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="there is no /proc/self/smaps")
def test_the_file_is_read_ahead_for_readers_alone(tmp_path: Path) -> None:
    create_environment(tmp_path)
    for readonly in (False, True):
        env = open_lmdb(tmp_path, readonly=readonly)
        maps = Path("/proc/self/smaps").read_text(encoding="utf-8").partition(str(tmp_path / "data.mdb"))[2]
        advised = maps.partition("VmFlags:")[2].splitlines()[0].split()
        lock_table.close(env)
        assert ("rr" in advised) is not readonly, advised


@pytest.mark.parametrize("name", ["", "data.mdb"])
def test_a_link_to_a_disk_that_is_not_mounted_is_named(tmp_path: Path, name: str) -> None:
    path, disk = tmp_path / "frontier", tmp_path / "disk"
    if name:
        path.mkdir()
    (path / name).symlink_to(disk)
    for use in Frontier.open, Reader:
        with pytest.raises(NotAFrontier, match=f"is a link to {disk}, where nothing is; mount its disk"):
            use(path)
    assert (path / name).is_symlink() and not disk.exists()
