"""The pages of a data file, read without LMDB: what LMDB finds, and nothing that a damaged file could do."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.lmdb_pages import File, Trees, has_damaged_roots, lacks_free_pages_only

PAGE = 4096


def stored(data: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """All records by table, as the pages have them."""
    found = {}
    with closing(File(data)) as file:
        trees = Trees(file, file.roots()[0])
        for name, _, root in trees.tables():
            found[name] = [
                item for number in trees.walk(name, root) for item in trees.records(name, number, trees.read(number))
            ]
        assert not trees.lost
    return found


def test_all_records_are_those_that_lmdb_reads(path: Path) -> None:
    found = stored(path / "data.mdb")
    env = open_lmdb(path, readonly=True)
    with env.begin() as txn:
        assert set(found) == set(keys.TABLES)
        for name in keys.TABLES:
            assert found[name] == list(txn.cursor(env.open_db(name.encode(), txn=txn, create=False)))
    lock_table.close(env)


def test_the_newest_root_comes_first(path: Path) -> None:
    env = open_lmdb(path)
    last = env.info()["last_txnid"]
    lock_table.close(env)
    with closing(File(path / "data.mdb")) as file:
        assert [root.transaction for root in file.roots()] == [last, last - 1]
        assert all(root.page_size == PAGE and root.last < file.size() // PAGE for root in file.roots())
    assert not has_damaged_roots(path / "data.mdb")


@pytest.mark.parametrize("content", [b"", b"\0" * 2 * PAGE, b"x" * 2 * PAGE])
def test_a_file_without_roots_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    with closing(File(tmp_path / "data.mdb")) as file, pytest.raises(CorruptFrontier, match="neither of its two roots"):
        file.roots()


def test_a_page_that_is_not_what_it_ought_to_be_is_lost_and_walking_goes_on(path: Path) -> None:
    data = bytearray((path / "data.mdb").read_bytes())
    chance = random.Random(3)
    for _ in range(60):
        broken = bytearray(data)
        page = chance.randrange(2, len(data) // PAGE)
        broken[page * PAGE : (page + 1) * PAGE] = chance.randbytes(PAGE)
        (path / "data.mdb").write_bytes(broken)
        with closing(File(path / "data.mdb")) as file:
            trees = Trees(file, file.roots()[0])
            for name, _, root in list(trees.tables()):
                for number in trees.walk(name, root):
                    list(trees.records(name, number, trees.read(number)))
            lost = {lost.page for lost in trees.lost} - {0}
            assert lost <= {page} or len(lost) == 1, "a page within a value: the leaf that it belongs to is named"


def test_a_file_that_ends_early_lacks_used_pages(path: Path) -> None:
    data = path / "data.mdb"
    assert lacks_free_pages_only(data)
    whole = data.read_bytes()
    data.write_bytes(whole[: 4 * PAGE])
    assert not lacks_free_pages_only(data)
