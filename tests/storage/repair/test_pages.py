"""What is read of a data file without LMDB: all of a sound one, and of a damaged one all but what is damaged."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.repair.pages import Salvage
from tests.storage.repair.damaging import leaves
from tests.support import crawl, make_settings, pages

PAGE = 4096
BRANCH = 1  # the flags of such a page
Tables = dict[str, list[tuple[bytes, bytes]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data file of a frontier whose trees have branches, with values of several pages, and free pages."""
    path = tmp_path_factory.mktemp("made")
    with Frontier.open(path, make_settings(hold_queues=False)) as f:
        for commit in range(3):
            f.schedule_many(f"https://h{host}.test/{commit}" for host in range(150))
            f.schedule_many(pages("ABC", 150, first=150 * commit))
            f.commit()
        f.schedule_many(CrawlUri(f"https://big.test/{n}", payload=random.Random(n).randbytes(9000)) for n in range(3))
        crawl(f, 20)
    return path / "data.mdb"


@pytest.fixture(scope="module")
def tables(made: Path) -> Tables:
    """The tables as LMDB reads them."""
    env = open_lmdb(made.parent, readonly=True)
    with env.begin() as txn:
        dbs = {name: env.open_db(name.encode(), txn=txn, create=False) for name in keys.TABLES}
        found = {name: [item for item in txn.cursor(db) if item[0] != keys.SENTINEL] for name, db in dbs.items()}
    lock_table.close(env)
    return found


def damaged(made: Path, folder: Path, data: bytes | bytearray) -> Path:
    file = folder / "data.mdb"
    file.write_bytes(data)
    return file


def read(file: Path) -> Tables:
    with closing(Salvage(file)) as salvage:
        return {name: list(salvage.records(name)) for name in keys.TABLES}


def test_a_sound_file_is_read_as_lmdb_reads_it(made: Path, tables: Tables) -> None:
    with closing(Salvage(made)) as salvage:
        assert {name: list(salvage.records(name)) for name in keys.TABLES} == tables
        assert (salvage.lost, salvage.missing()) == ([], {})
        assert not any(salvage.lacks(name) for name in keys.TABLES)
    env = open_lmdb(made.parent, readonly=True)
    assert salvage.transaction == env.info()["last_txnid"]
    lock_table.close(env)


def test_a_table_that_is_not_found_is_lost(path: Path) -> None:
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(keys.RUNS.encode(), txn=txn))
    lock_table.close(env)
    with closing(Salvage(path / "data.mdb")) as salvage:
        assert [(lost.table, lost.why) for lost in salvage.lost] == [(keys.RUNS, "the root of the table is lost")]


def test_a_page_that_is_lost_costs_what_is_on_it_and_no_more(made: Path, tables: Tables, tmp_path: Path) -> None:
    whole = made.read_bytes()
    costly = 0
    for page in range(2, len(whole) // PAGE):
        data = bytearray(whole)
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        found = read(damaged(made, tmp_path, data))
        for name in keys.TABLES:
            there, kept = dict(tables[name]), dict(found[name])
            assert kept.keys() <= there.keys(), "nothing is read that was not there"
            spoilt = [key for key in kept if kept[key] != there[key]]
            assert all(len(there[key]) > PAGE for key in spoilt), "a page within a value: nobody can tell"
            lost = [place for place, key in enumerate(there) if key not in kept]
            if lost:
                assert lost == list(range(lost[0], lost[-1] + 1)), "the records of one page stand side by side"
                assert whole[page * PAGE + 10] != BRANCH, "what is below a branch is found again"
                costly += 1
    assert costly > 20


def test_what_is_lost_is_told(made: Path, tables: Tables, tmp_path: Path) -> None:
    whole = made.read_bytes()
    page = leaves(made, keys.SEEN)[1]
    data = bytearray(whole)
    data[page * PAGE : (page + 1) * PAGE] = b"x" * PAGE
    with closing(Salvage(damaged(made, tmp_path, data))) as salvage:
        count = len(list(salvage.records(keys.SEEN)))
        assert salvage.lacks(keys.SEEN)
        assert salvage.missing() == {keys.SEEN: len(tables[keys.SEEN]) - count}
        assert [(lost.table, lost.page, lost.data) for lost in salvage.lost] == [(keys.SEEN, page, b"x" * PAGE)]


def test_a_record_that_is_damaged_spoils_no_other(made: Path, tables: Tables, tmp_path: Path) -> None:
    whole = made.read_bytes()
    page = leaves(made, keys.PENDING)[0]
    data = bytearray(whole)
    data[page * PAGE + 20 : page * PAGE + 22] = b"\xff\xff"  # where its third record is
    found = read(damaged(made, tmp_path, data))
    assert len(found[keys.PENDING]) == len(tables[keys.PENDING]) - 1
    assert set(found[keys.PENDING]) < set(tables[keys.PENDING])


def test_a_value_whose_own_pages_are_damaged_is_lost(made: Path, tables: Tables, tmp_path: Path) -> None:
    data = bytearray(made.read_bytes())
    value = next(value for _, value in tables[keys.PENDING] if len(value) > PAGE)
    start = data.index(value) - 16
    data[start : start + 8] = bytes(8)
    with closing(Salvage(damaged(made, tmp_path, data))) as salvage:
        assert len(list(salvage.records(keys.PENDING))) == len(tables[keys.PENDING]) - 1
        (lost,) = salvage.lost
        assert lost.key is not None and tables[keys.PENDING][-1][0][:4] == lost.key[:4]


@pytest.mark.parametrize("root", [0, 1])
def test_one_root_is_enough(made: Path, tables: Tables, tmp_path: Path, root: int) -> None:
    data = bytearray(made.read_bytes())
    data[root * PAGE : (root + 1) * PAGE] = bytes(PAGE)
    with closing(Salvage(made)) as salvage:
        newest = salvage.transaction
    with closing(Salvage(damaged(made, tmp_path, data))) as salvage:
        assert salvage.transaction == newest - (newest % 2 == root)
        if salvage.transaction == newest:
            assert {name: list(salvage.records(name)) for name in keys.TABLES} == tables
        assert salvage.lost == []


def test_the_root_before_serves_when_neither_tables_nor_free_pages_can_be_found(made: Path, tmp_path: Path) -> None:
    data = bytearray(made.read_bytes())
    with closing(Salvage(made)) as salvage:
        newest = salvage.transaction
    start = newest % 2 * PAGE + 16 + 24  # of the trees in the newest root: free pages, then tables
    for tree in 0, 48:
        root = int.from_bytes(data[start + tree + 40 : start + tree + 48], "little")
        data[root * PAGE : (root + 1) * PAGE] = bytes(PAGE)
    with closing(Salvage(damaged(made, tmp_path, data))) as salvage:
        assert salvage.transaction == newest - 1
        assert salvage.lost[-1].why.startswith("the tables of the last commit")
        assert len(list(salvage.records(keys.SEEN))) > 1000


@pytest.mark.parametrize("content", [b"", b"x" * 9000, bytes(5 * PAGE)])
def test_without_a_root_nothing_can_be_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(content)
    with pytest.raises(CorruptFrontier, match="roots"):
        Salvage(file)


def test_no_damage_leads_astray(made: Path, tmp_path: Path) -> None:
    """Noise, flipped bits and files cut short end in records, or in CorruptFrontier."""
    whole = made.read_bytes()
    chance = random.Random(11)
    for turn in range(120):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 5, 40])):
            at = chance.randrange(2 * PAGE if turn % 10 == 0 else len(data))
            if turn % 3:
                data[at] ^= 1 << chance.randrange(8)
            else:
                start = at // PAGE * PAGE
                data[start : start + 32] = chance.randbytes(32)
        if turn % 4 == 0:
            del data[chance.randrange(len(data)) :]
        try:
            found = read(damaged(made, tmp_path, data))
        except CorruptFrontier:
            continue
        assert sum(map(len, found.values())) <= 2 * len(whole) // 8
