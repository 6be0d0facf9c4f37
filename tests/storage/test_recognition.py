"""A frontier whose tables LMDB does not find is damaged, and no stranger; the files of other programs are strangers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.errors import CorruptFrontier, NotAFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.lmdb_env import REMEDY, open_lmdb
from budgetfrontier.storage.lmdb_pages import File, Trees
from budgetfrontier.storage.recognition import SHAPES, SHAPES_OF_INDEXES, was_frontier
from budgetfrontier.tools.cli import main
from tests.support import crawl, make_settings

PAGE = 4096
SAVED = 250
OPENINGS: tuple[Callable[[Path], object], ...] = (Frontier.open, Reader)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "frontier"
    with Frontier.open(path, make_settings(hold_queues=False)) as frontier:
        for commit in range(3):
            frontier.schedule_many(f"https://h{n % 40}.test/{commit}/{n}" for n in range(100))
            frontier.commit()
        crawl(frontier, 20)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "job" / "frontier")
    return tmp_path / "job" / "frontier"


def root_of(path: Path, table: str = "") -> int:
    """The root page of a table, or of the tree of tables."""
    with closing(File(path / "data.mdb")) as file:
        root = file.roots()[0]
        roots = {name: page for name, _, page in Trees(file, root).tables()}
    return roots.get(table, root.main)


def spoil(path: Path, page: int, change: Callable[[bytes], bytes]) -> None:
    """Write another page in place of one."""
    with open(path / "data.mdb", "r+b") as file:
        file.seek(page * PAGE)
        old = file.read(PAGE)
        new = change(old)
        assert len(new) == PAGE and new != old
        file.seek(page * PAGE)
        file.write(new)


def empty(page: bytes) -> bytes:
    """A leaf without a record."""
    return page[:10] + b"\2\0\x10\0\0\x10" + page[16:]


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda page: bytes(PAGE),
    "ones": lambda page: b"\xff" * PAGE,
    "no kind": lambda page: page[:10] + b"\0\0" + page[12:],
    "empty": empty,
    "a branch": lambda page: page[:10] + b"\1\0" + page[12:],
    "other names": lambda page: re.sub(b"meta|schema", lambda name: b"x" + name[0][1:], page),
}


def assert_refused(path: Path, error: type[Exception]) -> None:
    """Both ways of opening it end with this error, and say what to do; nothing is written."""
    before = (path / "data.mdb").read_bytes()
    for opening in OPENINGS:
        with pytest.raises(error, match=re.escape(REMEDY) if error is CorruptFrontier else "name another folder"):
            opening(path)
    assert (path / "data.mdb").read_bytes() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table", ["", keys.META])
def test_a_lost_root_is_damage_and_can_be_repaired(path: Path, table: str, way: str) -> None:
    spoil(path, root_of(path, table), WAYS[way])
    assert_refused(path, CorruptFrontier)
    job = str(path.parent)
    assert main(["verify", job]) == 6
    assert main(["report", job]) == 6
    assert main(["verify", job, "--repair"]) == 0
    with Reader(path) as reader:
        reader.check()
        assert reader.summary().seen >= SAVED


@pytest.mark.parametrize("way", ["zeros", "empty", "other names"])
def test_the_root_of_a_copy_has_no_older_one_beside_it(path: Path, way: str) -> None:
    compact(path)
    spoil(path, root_of(path), WAYS[way])
    assert_refused(path, CorruptFrontier)


def test_records_of_queues_are_enough_to_know_a_frontier(path: Path) -> None:
    compact(path)
    for page in root_of(path, keys.META), root_of(path):
        spoil(path, page, empty)
    assert_refused(path, CorruptFrontier)


def test_a_table_that_is_lost_is_not_made_anew(path: Path) -> None:
    spoil(path, root_of(path), lambda page: page.replace(keys.PENDING.encode(), b"gnidnep"))
    assert_refused(path, CorruptFrontier)
    assert main(["verify", str(path.parent), "--repair"]) == 0


def test_a_damaged_page_that_is_met_later_is_named_with_what_to_do(path: Path) -> None:
    spoil(path, root_of(path, keys.QUEUES), WAYS["ones"])
    with Reader(path) as reader, pytest.raises(CorruptFrontier, match=re.escape(REMEDY)):
        list(reader.queues())


@pytest.mark.parametrize("byte", [140, 142, 143])
def test_a_last_page_beyond_all_maps_is_damage(path: Path, byte: int) -> None:
    with closing(File(path / "data.mdb")) as file:
        newest = file.roots()[0].transaction % 2
    spoil(path, newest, lambda page: page[:byte] + b"\x81" + page[byte + 1 :])
    assert_refused(path, CorruptFrontier)
    assert main(["verify", str(path.parent)]) == 6


# -- other programs


def other(path: Path, *tables: str, records: int = 3) -> None:
    """An environment of another program, with these tables."""
    path.mkdir()
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        for name in tables:
            txn.put(b"schema", b"9", db=env.open_db(name.encode(), txn=txn))
        for number in range(records):
            txn.put(b"record %d" % number, b"counters", db=None)
    lock_table.close(env)


@pytest.mark.parametrize("tables", [(), ("pages",), ("queues", "pending", "settings")])
@pytest.mark.parametrize("records", [0, 3, 2000])
def test_the_file_of_another_program_is_none(tmp_path: Path, tables: tuple[str, ...], records: int) -> None:
    other(tmp_path / "other", *tables, records=records)
    assert_refused(tmp_path / "other", NotAFrontier)


@pytest.mark.parametrize("records", [3, 2000])
def test_the_damaged_file_of_another_program_is_none(tmp_path: Path, records: int) -> None:
    path = tmp_path / "other"
    other(path, "pages", records=records)
    spoil(path, root_of(path), empty)
    assert_refused(path, NotAFrontier)


def test_a_file_of_a_later_format_is_none(tmp_path: Path) -> None:
    env = lmdb.open(str(tmp_path), lib_version=1)
    lock_table.close(env)
    assert not was_frontier(tmp_path / "data.mdb")


def test_verify_names_a_file_that_is_empty(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LMDB takes such a file for one that it has still to make, which it cannot when it only reads."""
    (path / "data.mdb").write_bytes(b"")
    for options in [], ["--repair"]:
        assert main(["verify", str(path.parent), *options]) == 6
        assert "data.mdb is truncated (0 bytes)" in capsys.readouterr().err
    assert (path / "data.mdb").stat().st_size == 0


def test_the_rows_of_each_table_are_known_by_their_form() -> None:
    assert SHAPES.keys() | SHAPES_OF_INDEXES.keys() == set(keys.TABLES)
    assert not SHAPES.keys() & SHAPES_OF_INDEXES.keys()
