"""Changes of rows: recorded in one environment, applied in another, and refused if they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import CorruptFrontier, FrontierError, NewerChanges
from budgetfrontier.storage import keys, meta, table_changes
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.table_changes import FORMAT, Numbered, Recorder, TableChanges, TablePatches
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
        assert changes is not None and table_changes.apply(copy, changes).rows == 4
        assert rows_of(copy, keys.DEAD) == [(b"a1", b"1"), (b"b1", b"2"), (b"c1", b"5"), (b"d1", b"6")]
        assert env.txn.pop(b"a1", db=table) == b"1" and env.txn.pop(b"a1", db=table) is None
        assert env.txn.delete(b"c1", db=table) and not env.txn.delete(b"c1", db=table)
        assert cursor.set_key(b"d1") and cursor.delete()
        changes = recorder.take()
        assert changes is not None and table_changes.apply(copy, changes).rows == 3
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


AUDIT = keys.TABLES.index(keys.AUDIT)
QUEUES = keys.TABLES.index(keys.QUEUES)


def numbered(*tables: TableChanges, patched: list[TablePatches] | None = None, number: int = 1) -> tuple[int, Numbered]:
    return FORMAT, Numbered(number, list(tables), patched or [], 0)


def change(**fields: Any) -> TableChanges:
    return msgspec.structs.replace(TableChanges(AUDIT, False, [], [b"k"], [b"v"]), **fields)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ((FORMAT + 1, "of another kind"), NewerChanges, f"format {FORMAT + 1}, and this release reads format {FORMAT}"),
        (numbered(change(), change(table=len(keys.TABLES))), NewerChanges, "a table that this release has not"),
        (numbered(change(), change(table=-1)), NewerChanges, "a table that this release has not"),
        (numbered(change(), patched=[TablePatches(99, [], [])]), NewerChanges, "a table that this release has not"),
        (numbered(change(), change(folded=True)), NewerChanges, "fold the table audit"),
        (numbered(change(), change(values=[b"1", b"2"])), FrontierError, "1 keys of audit, and 2 values"),
        (numbered(change(), change(put=b"\x0212345")), FrontierError, "has 5 bytes, and keys of 2"),
        (numbered(change(), change(deleted=b"\x00123")), FrontierError, "has 3 bytes, and keys of 0"),
        (numbered(change(), change(deleted=b"")), FrontierError, "and keys of 0"),
        (
            numbered(change(), patched=[TablePatches(QUEUES, [b"1"], [])]),
            FrontierError,
            "1 keys of queues, and 0 patch",
        ),
        (numbered(change(), patched=[TablePatches(QUEUES, [b"1"], [[0, 1]])]), CorruptFrontier, "a row of queues is"),
        (numbered(change(), number=2), CorruptFrontier, "has the changes up to 0, and 2 come next"),
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


def queue(env: Environment, number: int, *fields: Any) -> None:
    env.txn.put(keys.u32.pack(number), msgspec.msgpack.encode(fields), db=env.db[keys.QUEUES])


def test_of_a_row_that_changes_again_only_what_differs_is_there(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, copy):
        for number in range(20):
            queue(env, number, f"a-long-name-of-a-host-{number}.example", "READY", 1000, None)
        first = recorder.take()
        assert first is not None and first.count(b"a-long-name") == 20
        for number in range(20):
            queue(env, number, "never taken")
            queue(env, number, f"a-long-name-of-a-host-{number}.example", "READY", 1001, 0.5 if number else None)
        env.commit()
        second = recorder.take()
        assert second is not None and b"a-long-name" not in second and b"READY" not in second
        for changes in (first, second, first, second):
            table_changes.apply(copy, changes)
        assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)
        assert meta.read_changes(copy.txn, copy.db[keys.META]) == 2


def test_a_row_that_is_written_as_it_was_has_not_changed(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, copy):
        queue(env, 0, "a.test", 1)
        table_changes.apply(copy, recorder.take() or b"")
        queue(env, 0, "a.test", 1)
        assert not recorder.has_changes and recorder.take() is None
        for value in 1, 2, 1, 3:
            queue(env, 0, "a.test", value)
        table_changes.apply(copy, recorder.take() or b"")
        assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)
        assert meta.read_changes(copy.txn, copy.db[keys.META]) == 2


@pytest.mark.parametrize("more", [0, 1])
def test_many_rows_are_put_whole(tmp_path: Path, more: int) -> None:
    with both(tmp_path) as (env, recorder, copy):
        table, many = env.db[keys.QUEUES], table_changes.MOST_PATCHED + more
        for value in (1, 2, 3):
            rows = [(keys.u32.pack(n), msgspec.msgpack.encode([f"host-{n:04}", value])) for n in range(many)]
            if value < 3:
                env.txn.cursor(table).putmulti(rows)
            else:
                cursor = env.txn.cursor(table)
                assert all(cursor.put(*row) for row in rows)
            changes = recorder.take()
            assert changes is not None and changes.count(b"host") == (many if value == 1 or more else 0)
            table_changes.apply(copy, changes)
            assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES) == rows


def test_a_row_that_went_and_came_again_is_put_whole(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, copy):
        for fields in ((1, 2, 3), None, (1, 2, 4)):
            if fields is None:
                env.txn.delete(keys.u32.pack(7), db=env.db[keys.QUEUES])
            else:
                queue(env, 7, *fields)
            changes = recorder.take()
            assert changes is not None and (fields is None or msgspec.msgpack.encode(fields) in changes)
            table_changes.apply(copy, changes)
            assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)


def test_a_row_that_is_wrong_where_changes_are_made_damages_no_copy(tmp_path: Path) -> None:
    """Whether it was so before, or has become so between two changes of it."""
    for wrong_at in range(3):
        recorder = Recorder()
        with (
            closing(Environment(tmp_path / f"one-{wrong_at}", wrap=recorder.wrap)) as env,
            closing(Environment(tmp_path / f"copy-{wrong_at}")) as copy,
        ):
            raw, key = recorder._txn, keys.u32.pack(7)
            for txn, db in ((raw, env.db), (copy.txn, copy.db)):
                txn.put(key, msgspec.msgpack.encode(["host", 1, 2000]), db=db[keys.QUEUES])
            for turn in range(3):
                if turn == wrong_at:
                    raw.put(key, msgspec.msgpack.encode(["hosu", 9, 2001]), db=env.db[keys.QUEUES])
                queue(env, 7, "host", turn + 2, 2000)
                changes = recorder.take()
                assert changes is not None and (b"host" in changes) == (turn == 0)
                assert table_changes.apply(copy, changes).rows == 1
                assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)


def test_the_rows_that_are_kept_to_patch_them_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_changes, "MOST_LOGGED", 3)
    with both(tmp_path) as (env, recorder, copy):
        for turn, numbers in enumerate([range(3), range(3), range(4), range(3), range(3)]):
            for number in numbers:
                queue(env, number, "host", turn)
            changes = recorder.take()
            assert changes is not None and changes.count(b"host") == [3, 0, 1, 3, 0][turn]
            table_changes.apply(copy, changes)
            assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)


fields = st.lists(st.one_of(st.integers(-300, 300), st.floats(), st.booleans(), st.text(max_size=3)), max_size=5)


@few(100)
@given(steps=st.lists(st.dictionaries(st.integers(0, 3), fields), min_size=2, max_size=4), data=st.data())
def test_a_row_that_is_not_what_the_owner_had_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[int, list[Any]]], data: st.DataObject
) -> None:
    with both(tmp_path_factory.mktemp("damage")) as (env, recorder, copy):
        for step in steps:
            before = rows_of(copy, keys.QUEUES)
            for number, row in step.items():
                queue(env, number, *row)
            changes = recorder.take()
            if changes is None:
                continue
            if data.draw(st.booleans()) and before:
                key, value = before[data.draw(st.integers(0, len(before) - 1))]
                other = bytearray(value)
                other[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
                copy.txn.put(key, bytes(other), db=copy.db[keys.QUEUES])
                changed = rows_of(copy, keys.QUEUES)
                try:
                    table_changes.apply(copy, changes)
                except CorruptFrontier:
                    assert rows_of(copy, keys.QUEUES) == changed, "nothing was applied"
                else:
                    made = dict(rows_of(env, keys.QUEUES))
                    wanted = made if made[key] != value else made | {key: bytes(other)}  # the others were not written
                    assert dict(rows_of(copy, keys.QUEUES)) == wanted
                return
            table_changes.apply(copy, changes)
            assert rows_of(copy, keys.QUEUES) == rows_of(env, keys.QUEUES)


def test_changes_that_are_missing_are_noticed(tmp_path: Path) -> None:
    with both(tmp_path) as (env, recorder, copy):
        taken = []
        for number in range(3):
            queue(env, number, 1)
            taken.append(recorder.take())
        first, _, third = taken
        assert first is not None and third is not None
        assert table_changes.apply(copy, first).rows == 1 and table_changes.apply(copy, first).rows == 0
        with pytest.raises(CorruptFrontier, match="has the changes up to 1, and 3 come next"):
            table_changes.apply(copy, third)
        assert len(rows_of(copy, keys.QUEUES)) == 1


def test_a_wrong_number_of_changes_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """All copies would lack changes, or seem to, if an owner numbered its own after it."""
    with both(tmp_path) as (env, recorder, copy):
        queue(env, 1, 1)
        first = recorder.take()
        assert first is not None
        table_changes.apply(copy, first)
        queue(env, 1, 2)
        for one in recorder._txn, copy.txn:
            table = (copy if one is copy.txn else env).db[keys.META]
            value: Any = one.get(meta.CHANGES, db=table)
            for bit in range(8 * len(value)):
                other = bytearray(value)
                other[bit // 8] ^= 1 << bit % 8
                one.put(meta.CHANGES, bytes(other), db=table)
                with pytest.raises(CorruptFrontier, match="number of changes cannot be read"):
                    recorder.take() if one is recorder._txn else table_changes.apply(copy, first)
            one.put(meta.CHANGES, value, db=table)
        second = recorder.take()
        assert second is not None and table_changes.apply(copy, second).rows == 1


def test_the_places_of_tables_are_those_of_the_format() -> None:
    """Other places, or a table between two others, would be another format: new ones come last."""
    assert FORMAT == 1
    assert " ".join(keys.TABLES) == (
        "meta queues queue_ids pending seen inactive active snoozed retired leases future dead audit removed runs "
        "series urls seeds seed_keys hosts groups group_ids parked group_wakes ineligible tallies links degrees "
        "preloaded history answers peers"
    )
