"""The changes of rows that a transaction makes, as bytes, and their writing into the tables of a copy.

Whoever applies them needs no policy, no clock and no settings: a row is put or deleted, and that is all. The last
change of a row counts, so that a row that was written many times is there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import lmdb
import msgspec

from budgetfrontier.errors import FrontierError, NewerChanges
from budgetfrontier.storage import bloom_file, keys
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import translate_error

FORMAT: Final = 1
"""The format of changes. It grows with every change that an older release would apply wrongly."""


_FEW: Final = 8
"""Keys of a column that are written as they are."""


class TableChanges(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The changes of one table: rows that are deleted, and rows that are put, in the order of keys.

    At last the table is emptied if it was `folded`: its keys are in the next Bloom filter then. A column of keys is a
    list, or one string of keys of the same width, byte by byte: first the first byte of every key. So the bytes in
    which keys differ stand together, and others compress to nothing.
    """

    table: str
    folded: bool
    deleted: bytes | list[bytes]
    deleted_width: int
    """Bytes of each key that is deleted; 0 if they differ."""
    put: bytes | list[bytes]
    put_width: int
    values: list[bytes]
    """The values of the keys that are put; empty if all are empty."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode
_decode_tables: Final = msgspec.msgpack.Decoder(list[TableChanges]).decode

Rows = dict[bytes, bytes | None]
"""The values of rows by their keys; None: it was deleted."""


class Recorder:
    """Notes the changes of rows that go through the transactions it wraps, until they are taken."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._rows: dict[Any, Rows] = {}
        self._folded: set[Any] = set()

    def __repr__(self) -> str:
        return f"<Recorder of {sum(map(len, self._rows.values())):,} rows>"

    @property
    def has_changes(self) -> bool:
        """Whether any row has changed since the changes were taken. O(tables)."""
        return bool(self._folded) or any(self._rows.values())

    def wrap(self, txn: keys.Txn, db: keys.Tables) -> keys.Txn:
        """Return a transaction that notes what it changes in the tables with these handles."""
        if not self._names:
            self._names = {handle: name for name, handle in db.items()}
            self._rows = {handle: {} for handle in self._names}
        wrapped: Any = _RecordingTransaction(txn, self._rows, self._folded)
        return wrapped  # type: ignore[no-any-return]

    def take(self) -> bytes | None:
        """Return the changes since the last time; None if there are none. O(rows log rows)."""
        changed = {handle: rows for handle, rows in self._rows.items() if rows or handle in self._folded}
        if not changed:
            return None
        tables = [
            _table_changes(self._names[table], rows, folded=table in self._folded) for table, rows in changed.items()
        ]
        for rows in changed.values():
            rows.clear()
        self._folded.clear()
        return _encode((FORMAT, tables))


def apply(env: Environment, changes: bytes) -> int:
    """Write changes into the transaction of a copy; return how many rows they put or delete. O(rows log n).

    All of it is checked before the first row is written. Raises NewerChanges if a newer release has made them,
    FrontierError if they cannot be read, and CorruptFrontier if the copy is damaged. Changes that were applied before
    may be applied again, if all that follow are.
    """
    written = 0
    tables = _decoded(changes)
    txn, db = env.txn, env.db
    try:
        for of_table in tables:
            cursor = txn.cursor(db[of_table.table])
            deleted = _split(of_table.deleted, of_table.deleted_width)
            for key in deleted:
                if cursor.set_key(key):
                    cursor.delete()
            put = _split(of_table.put, of_table.put_width)
            cursor.putmulti(zip(put, of_table.values or [b""] * len(put), strict=True))
            written += len(deleted) + len(put)
            env.wrote(0, len(put) if of_table.table == keys.SEEN else 0)
            cursor.close()
        if any(of_table.folded for of_table in tables):
            bloom_file.fold(env)
    except lmdb.Error as e:
        raise translate_error(e, env.path) from e
    env.wrote(len(changes))
    return written


def _decoded(changes: bytes) -> list[TableChanges]:
    try:
        version, raw = _decode(changes)
        if version != FORMAT:
            raise NewerChanges(f"the changes have format {version}, and this release reads format {FORMAT} only")
        tables = _decode_tables(raw)
    except msgspec.DecodeError as e:
        raise FrontierError(f"these are no changes of rows: {e}") from None
    for of_table in tables:
        if of_table.table not in keys.TABLES:
            raise NewerChanges(f"the changes are of a table that this release has not, {of_table.table[:100]!r}")
        put = _count(of_table.put, of_table.put_width)
        if of_table.folded and of_table.table != keys.SEEN:
            raise NewerChanges(f"the changes fold the table {of_table.table}, which this release never does")
        if of_table.values and len(of_table.values) != put:
            raise FrontierError(f"the changes of {of_table.table} have {put} keys and {len(of_table.values)} values")
        _count(of_table.deleted, of_table.deleted_width)
    return tables


def _table_changes(table: str, rows: Rows, *, folded: bool) -> TableChanges:
    ordered = sorted(rows)
    deleted = [key for key in ordered if rows[key] is None]
    put = [key for key in ordered if rows[key] is not None] if deleted else ordered
    values = [value for key in put if (value := rows[key]) is not None]
    return TableChanges(table, folded, *_joined(deleted), *_joined(put), values if any(values) else [])


def _joined(column: list[bytes]) -> tuple[bytes | list[bytes], int]:
    """Return a column of keys byte by byte, with their width; as it is, with 0, if they are few or differ in that."""
    if len(column) < _FEW or len(widths := {len(key) for key in column}) > 1:
        return column, 0
    (width,) = widths
    rows = b"".join(column)
    return b"".join([rows[place::width] for place in range(width)]), width


def _count(column: bytes | list[bytes], width: int) -> int:
    """Return the number of keys in a column. Raises FrontierError."""
    if isinstance(column, list):
        return len(column)
    if width <= 0 or len(column) % width:
        raise FrontierError(f"a column of changes has {len(column)} bytes, and keys of {width}")
    return len(column) // width


def _split(column: bytes | list[bytes], width: int) -> list[bytes]:
    """Return the keys of a column."""
    if isinstance(column, list):
        return column
    number = len(column) // width
    rows = bytearray(len(column))
    for place in range(width):
        rows[place::width] = column[place * number : (place + 1) * number]
    joined = bytes(rows)
    return [joined[start : start + width] for start in range(0, len(joined), width)]


class _RecordingTransaction:
    """A transaction of LMDB that notes the rows which it changes. Reading goes to LMDB without a detour."""

    def __init__(self, txn: Any, rows: dict[Any, Rows], folded: set[Any]) -> None:
        self._txn = txn
        self._rows = rows
        self._folded = folded
        self.get, self.stat, self.id = txn.get, txn.stat, txn.id
        self.commit, self.abort = txn.commit, txn.abort

    def cursor(self, db: Any) -> _RecordingCursor:
        return _RecordingCursor(self._txn.cursor(db), self._rows[db])

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True, db: Any) -> bool:
        written: bool = self._txn.put(key, value, overwrite=overwrite, db=db)
        if written:
            self._rows[db][key] = value
        return written

    def delete(self, key: bytes, *, db: Any) -> bool:
        deleted: bool = self._txn.delete(key, db=db)
        if deleted:
            self._rows[db][key] = None
        return deleted

    def pop(self, key: bytes, *, db: Any) -> bytes | None:
        value: bytes | None = self._txn.pop(key, db=db)
        if value is not None:
            self._rows[db][key] = None
        return value

    def drop(self, db: Any, *, delete: bool) -> None:
        self._txn.drop(db, delete=delete)
        self._folded.add(db)


class _RecordingCursor:
    """A cursor of LMDB that notes the rows which it changes."""

    __slots__ = (
        *("_cursor", "_rows", "_put", "set_key", "set_range", "first", "last", "next", "prev", "key", "value", "item"),
        *("iternext", "iterprev", "close"),
    )

    def __init__(self, cursor: Any, rows: Rows) -> None:
        self._cursor = cursor
        self._rows = rows
        self._put = cursor.put
        self.set_key, self.set_range = cursor.set_key, cursor.set_range
        self.first, self.last, self.next, self.prev = cursor.first, cursor.last, cursor.next, cursor.prev
        self.key, self.value, self.item = cursor.key, cursor.value, cursor.item
        self.iternext, self.iterprev, self.close = cursor.iternext, cursor.iterprev, cursor.close

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._cursor)

    def put(self, key: bytes, value: bytes, dupdata: bool = True, overwrite: bool = True) -> bool:
        written: bool = self._put(key, value, dupdata, overwrite)
        if written:
            self._rows[key] = value
        return written

    def putmulti(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        rows = list(items)
        self._cursor.putmulti(rows)
        self._rows.update(rows)

    def delete(self) -> bool:
        key = self._cursor.key()
        deleted: bool = self._cursor.delete()
        if deleted:
            self._rows[key] = None
        return deleted
