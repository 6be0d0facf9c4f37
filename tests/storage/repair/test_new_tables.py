"""The tables that a repair writes: a sentinel in each, what was put first stays, and commits in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.repair import new_tables
from budgetfrontier.storage.repair.new_tables import NewTables


def test_records_are_there_once_it_is_finished_and_the_first_of_a_key_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_tables, "_BATCH", 3)  # records between two commits
    env = open_lmdb(tmp_path)
    tables = NewTables(env)
    for number in range(10):
        assert tables.put(keys.SEEN, b"%016d" % number, b"")
    assert tables.put(keys.DEAD, b"one", b"first") and not tables.put(keys.DEAD, b"one", b"second")
    assert tables.get(keys.DEAD, b"one") == b"first"
    assert tables.put(keys.DEAD, b"one", b"third", overwrite=True)
    assert (tables.entries(keys.SEEN), tables.entries(keys.DEAD), tables.entries(keys.AUDIT)) == (10, 1, 0)
    tables.finish()
    with env.begin() as txn:
        stored = {name: dict(txn.cursor(env.open_db(name.encode(), txn=txn, create=False))) for name in keys.TABLES}
    lock_table.close(env)
    assert all(table.pop(keys.SENTINEL) == b"" for table in stored.values())
    assert len(stored[keys.SEEN]) == 10 and stored[keys.DEAD] == {b"one": b"third"}
