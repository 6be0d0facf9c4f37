"""Changes of rows: recorded in one environment, applied in another, and refused if they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import FrontierError, NewerChanges
from budgetfrontier.storage import keys, table_changes
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.table_changes import FORMAT, Recorder, TableChanges
from tests.examples import few

rows = st.dictionaries(st.binary(min_size=2, max_size=3), st.one_of(st.none(), st.binary(max_size=2)), max_size=6)


@contextmanager
def both(folder: Path) -> Iterator[tuple[Environment, Recorder, Environment]]:
    """An environment whose changes are recorded, and one for a copy."""
    recorder = Recorder()
    env, copy = Environment(folder / "one", wrap=recorder.wrap), Environment(folder / "copy")
    try:
        yield env, recorder, copy
    finally:
        env.close()
        copy.close()


def rows_of(env: Environment, table: str) -> list[tuple[bytes, bytes]]:
    return [row for row in env.txn.cursor(env.db[table]).iternext() if row[0] != keys.SENTINEL]


@few(100)
@given(steps=st.lists(rows, min_size=1, max_size=4), split=st.integers(0, 4))
def test_a_copy_has_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[bytes, bytes | None]], split: int
) -> None:
    with both(tmp_path_factory.mktemp("changes")) as (env, recorder, copy):
        for step, changed in enumerate(steps):
            cursor, table = env.txn.cursor(env.db[keys.AUDIT]), env.db[keys.AUDIT]
            for key, value in changed.items():
                if value is not None:
                    env.txn.put(key, value, db=table)
                elif key[0] % 2:
                    env.txn.delete(key, db=table)
                elif cursor.set_key(key):
                    cursor.delete()
            cursor.putmulti((key, b"many") for key in changed if key.endswith(b"\7"))
            if step == split:
                env.commit()
            changes = recorder.take()
            assert not recorder.has_changes
            if changes is not None:
                table_changes.apply(copy, changes)
            assert rows_of(env, keys.AUDIT) == rows_of(copy, keys.AUDIT)


def test_each_way_to_change_a_row_is_recorded(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, copy):
        table = env.db[keys.DEAD]
        cursor = env.txn.cursor(table)
        assert env.txn.put(b"a1", b"1", db=table) and cursor.put(b"b1", b"2")
        assert not cursor.put(b"b1", b"3", True, False), "it is there"
        assert not env.txn.put(b"a1", b"4", overwrite=False, db=table)
        cursor.putmulti(iter([(b"c1", b"5"), (b"d1", b"6")]))
        changes = recorder.take()
        assert changes is not None and table_changes.apply(copy, changes) == 4
        assert rows_of(copy, keys.DEAD) == [(b"a1", b"1"), (b"b1", b"2"), (b"c1", b"5"), (b"d1", b"6")]
        assert env.txn.pop(b"a1", db=table) == b"1" and env.txn.pop(b"a1", db=table) is None
        assert env.txn.delete(b"c1", db=table) and not env.txn.delete(b"c1", db=table)
        assert cursor.set_key(b"d1") and cursor.delete()
        changes = recorder.take()
        assert changes is not None and table_changes.apply(copy, changes) == 3
        assert rows_of(copy, keys.DEAD) == rows_of(env, keys.DEAD) == [(b"b1", b"2")]
        assert recorder.take() is None


def test_the_last_change_of_a_row_is_the_one_that_is_there(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, _):
        for number in range(50):
            env.txn.put(b"key", b"%d" % number, db=env.db[keys.AUDIT])
        env.txn.put(b"gone", b"", db=env.db[keys.AUDIT])
        env.txn.delete(b"gone", db=env.db[keys.AUDIT])
        changes = recorder.take()
        assert changes is not None and b"49" in changes and b"48" not in changes


def change(**fields: Any) -> TableChanges:
    made = TableChanges(keys.AUDIT, False, [], 0, [b"k"], 0, [b"v"])
    return msgspec.structs.replace(made, **fields)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ((FORMAT + 1, "of another kind"), NewerChanges, f"format {FORMAT + 1}, and this release reads format {FORMAT}"),
        ((FORMAT, [change(), change(table="of tomorrow")]), NewerChanges, "a table that this release has not"),
        ((FORMAT, [change(), change(folded=True)]), NewerChanges, "fold the table audit"),
        ((FORMAT, [change(), change(values=[b"1", b"2"])]), FrontierError, "have 1 keys and 2 values"),
        ((FORMAT, [change(), change(put=b"12345", put_width=2)]), FrontierError, "has 5 bytes, and keys of 2"),
        ((FORMAT, [change(), change(deleted=b"12345", deleted_width=0)]), FrontierError, "has 5 bytes, and keys of 0"),
        ((FORMAT, "nonsense"), FrontierError, "no changes of rows"),
        ("nonsense", FrontierError, "no changes of rows"),
    ],
)
def test_what_cannot_be_applied_changes_nothing(
    tmp_path: Path, changes: object, error: type[FrontierError], words: str
) -> None:
    with both(tmp_path) as (_, _, copy):
        before = {table: rows_of(copy, table) for table in keys.TABLES}
        with pytest.raises(error, match=words):
            table_changes.apply(copy, msgspec.msgpack.encode(changes))
        assert {table: rows_of(copy, table) for table in keys.TABLES} == before
