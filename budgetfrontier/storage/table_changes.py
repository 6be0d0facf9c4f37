"""The changes of rows that a transaction makes, as bytes, and their writing into the tables of a copy.

Whoever applies them needs no policy, no clock and no settings: a row is put, changed or deleted, and that is all. The
last change of a row counts, so that a row that was written many times is there once. Changes are numbered, and applied
once each and in order. Of a row that earlier changes of the same recorder have whole, only what differs from that is
there: what the tables of the recorder had before, and might have wrong, counts for no other copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from zlib import crc32

import lmdb
import msgspec

from budgetfrontier.errors import CorruptFrontier, FrontierError, NewerChanges
from budgetfrontier.storage import bloom_file, keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import translate_error
from budgetfrontier.storage.row_patches import Patch, patch, patched

FORMAT: Final = 1
"""The format of changes. It grows with every change that an older release would apply wrongly, and of `keys.TABLES`."""

PATCHED: Final = frozenset((keys.META, keys.QUEUES, keys.GROUPS, keys.TALLIES))
"""Tables whose rows are changed again and again, in a few of their fields."""
MOST_PATCHED: Final = 100
"""Rows of a table that are patched at most in one go: more of them are put whole, which compresses as well."""

MOST_LOGGED: Final = 1 << 14
"""Rows of a table that are kept to patch them; with more of them, all are put whole once more."""

_FEW: Final = 8
"""Keys of a column that are written as they are."""
_WIDEST: Final = 255
"""Bytes of the keys of a column that is written byte by byte."""

Column = bytes | list[bytes]
"""Keys: a list, or one string of keys of the same width, byte by byte, behind the width: first the first byte of every
key. So the bytes in which keys differ stand together, and others compress to nothing."""


class UnreadableChanges(FrontierError):
    """Changes cannot be read: they are not as a release of this format writes them."""


class TableChanges(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The changes of one table: rows that are deleted, and rows that are put whole, in the order of keys.

    At last the table is emptied if it was `folded`: its keys are in the next Bloom filter then.
    """

    table: int
    """Its place in `keys.TABLES`."""
    folded: bool
    deleted: Column
    put: Column
    values: list[bytes]
    """The values of the keys that are put; empty if all are empty."""


class TablePatches(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The rows of one table that are patched, in the order of keys."""

    table: int
    keys: Column
    patches: list[Patch]


class Numbered(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Changes with their number, from 1 on, and the CRC-32 of all values that the patches make."""

    number: int
    tables: list[TableChanges]
    patched: list[TablePatches]
    crc: int


class AppliedChanges(NamedTuple):
    """Changes that a copy has, by their number, and how many rows they have put or deleted: 0 if it had them before."""

    number: int
    rows: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode
_decode_numbered: Final = msgspec.msgpack.Decoder(Numbered).decode

Rows = dict[bytes, bytes | None]
"""The values of rows by their keys; None: it was deleted, or was not there."""
Logged = dict[bytes, bytes]
"""Values of rows, by their keys, as the changes that were taken have them."""


class Recorder:
    """Notes the changes of rows that go through the transactions it wraps, until they are taken.

    All that it takes has to go into one log, or nothing that it takes later.
    """

    def __init__(self) -> None:
        self._txn: Any = None
        self._db: keys.Tables = {}
        self._rows: dict[Any, Rows] = {}
        self._logged: dict[Any, Logged] = {}
        """Those of PATCHED tables that can be patched."""
        self._folded: set[Any] = set()

    def __repr__(self) -> str:
        return f"<Recorder of {sum(map(len, self._rows.values())):,} rows>"

    @property
    def has_changes(self) -> bool:
        """Whether any row has changed since the changes were taken. O(tables)."""
        return bool(self._folded) or any(self._rows.values())

    def wrap(self, txn: keys.Txn, db: keys.Tables) -> keys.Txn:
        """Return a transaction that notes what it changes in the tables with these handles."""
        self._txn = txn
        if not self._db:
            self._db = db
            self._rows = {db[name]: {} for name in keys.TABLES}  # in this order
            self._logged = {db[name]: {} for name in PATCHED}
        wrapped: Any = _RecordingTransaction(txn, self._rows, self._logged, self._folded)
        return wrapped  # type: ignore[no-any-return]

    def take(self) -> bytes | None:
        """Return the changes since the last time, with the next number; None if there are none. O(rows log rows)."""
        if not self.has_changes:
            return None
        changes = Numbered(meta.read_changes(self._txn, self._db[keys.META]) + 1, [], [], 0)
        for place, (table, rows) in enumerate(self._rows.items()):
            folded = table in self._folded
            if not (rows or folded):
                continue
            if (logged := self._logged.get(table)) is not None:
                _patch_rows(changes, place, rows, logged)
            if rows or folded:
                changes.tables.append(_table_changes(place, rows, folded=folded))
                rows.clear()
        self._folded.clear()
        meta.write_changes(self._txn, self._db[keys.META], changes.number)
        return _encode((FORMAT, changes))


def apply(env: Environment, changes: bytes) -> AppliedChanges:
    """Write changes into the transaction of a copy. O(rows log n).

    All of it is checked before the first row is written. Changes that were applied before are left out. Raises
    NewerChanges if a newer release has made them, UnreadableChanges, and CorruptFrontier if the copy is damaged, or has
    not the rows that the owner had: those before these are missing, or a row is another one.
    """
    written = 0
    numbered = _decoded(changes)
    txn, db = env.txn, env.db
    try:
        done = meta.read_changes(txn, db[keys.META])
        if numbered.number <= done:
            return AppliedChanges(numbered.number, 0)
        if numbered.number > done + 1:
            raise CorruptFrontier(f"{env.path} has the changes up to {done:,}, and {numbered.number:,} come next")
        for table, rows in _patched_rows(env, numbered).items():
            txn.cursor(db[table]).putmulti(rows)
            written += len(rows)
        for of_table in numbered.tables:
            name = keys.TABLES[of_table.table]
            cursor = txn.cursor(db[name])
            deleted, put = _split(of_table.deleted), _split(of_table.put)
            for key in deleted:
                if cursor.set_key(key):
                    cursor.delete()
            cursor.putmulti(zip(put, of_table.values or [b""] * len(put), strict=True))
            written += len(deleted) + len(put)
            env.wrote(0, len(put) if name == keys.SEEN else 0)
            cursor.close()
        if any(of_table.folded for of_table in numbered.tables):
            bloom_file.fold(env)
        meta.write_changes(txn, db[keys.META], numbered.number)
    except lmdb.Error as e:
        raise translate_error(e, env.path) from e
    env.wrote(len(changes))
    return AppliedChanges(numbered.number, written)


def _decoded(changes: bytes) -> Numbered:
    """Return changes of which each key has a value, or a patch. Raises NewerChanges and UnreadableChanges."""
    try:
        version, raw = _decode(changes)
        if version != FORMAT:
            raise NewerChanges(f"the changes have format {version}, and this release reads format {FORMAT} only")
        numbered = _decode_numbered(raw)
        for of_table in numbered.tables:
            name = _name(of_table.table)
            if of_table.folded and name != keys.SEEN:
                raise NewerChanges(f"the changes fold the table {name}, which this release never does")
            _count(of_table.deleted)
            put = _count(of_table.put)
            if of_table.values and len(of_table.values) != put:
                raise ValueError(f"{put} keys of {name}, and {len(of_table.values)} values")
        for patches in numbered.patched:
            name = _name(patches.table)
            if len(patches.patches) != (number := _count(patches.keys)):
                raise ValueError(f"{number} keys of {name}, and {len(patches.patches)} patches")
    except (msgspec.DecodeError, ValueError) as e:
        raise UnreadableChanges(f"these are no changes of rows: {e}") from None
    return numbered


def _name(table: int) -> str:
    if not 0 <= table < len(keys.TABLES):
        raise NewerChanges(f"the changes are of a table that this release has not, number {table}")
    return keys.TABLES[table]


def _patched_rows(env: Environment, numbered: Numbered) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return the rows that patches make, by table. Raises CorruptFrontier if a row is not as the owner had it."""
    made: dict[str, list[tuple[bytes, bytes]]] = {}
    crc, name = 0, ""
    try:
        for of_table in numbered.patched:
            name = keys.TABLES[of_table.table]
            rows = made[name] = []
            for key, change in zip(_split(of_table.keys), of_table.patches, strict=True):
                value = patched(env.txn.get(key, db=env.db[name]) or b"", change)
                rows.append((key, value))
                crc = crc32(value, crc)
    except ValueError as e:
        raise CorruptFrontier(f"{env.path}: a row of {name} is not as changes {numbered.number:,} found it: {e}") from e
    if crc != numbered.crc:
        raise CorruptFrontier(f"{env.path}: rows are not as changes {numbered.number:,} found them: another checksum")
    return made


def _patch_rows(changes: Numbered, table: int, rows: Rows, logged: Logged) -> None:
    """Move the rows of a table that can be patched from `rows` to the changes; note all of them as logged."""
    made: dict[bytes, Patch] = {}
    for key in sorted(rows) if len(rows) <= MOST_PATCHED else ():
        old, new = logged.get(key), rows[key]
        if old is not None and new is not None and (change := patch(old, new)) is not None:
            made[key] = change
            changes.crc = crc32(new, changes.crc)
    if made:
        changes.patched.append(TablePatches(table, _joined([*made]), [*made.values()]))
    logged.update(rows)  # type: ignore[arg-type]  # but for rows that were deleted
    for key in [key for key, value in rows.items() if value is None]:
        del logged[key]
    if len(logged) > MOST_LOGGED:
        logged.clear()
    for key in made:
        del rows[key]


def _table_changes(table: int, rows: Rows, *, folded: bool) -> TableChanges:
    put, deleted = sorted(rows), list[bytes]()
    values: list[Any] = [*map(rows.__getitem__, put)]
    if None in values:
        deleted = [key for key in put if rows[key] is None]
        put = [key for key in put if rows[key] is not None]
        values = [value for value in values if value is not None]
    return TableChanges(table, folded, _joined(deleted), _joined(put), values if any(values) else [])


def _joined(column: list[bytes]) -> Column:
    """Return a column of keys byte by byte, behind their width; as it is if they are few or differ in that."""
    if len(column) < _FEW or len(widths := set(map(len, column))) > 1 or max(widths) > _WIDEST:
        return column
    (width,) = widths
    rows = b"".join(column)
    return b"".join([bytes((width,)), *(rows[place::width] for place in range(width))])


def _count(column: Column) -> int:
    """Return the number of keys in a column. Raises ValueError."""
    if isinstance(column, list):
        return len(column)
    width = column[0] if column else 0
    if width == 0 or (len(column) - 1) % width:
        raise ValueError(f"a column has {len(column) - 1} bytes, and keys of {width}")
    return (len(column) - 1) // width


def _split(column: Column) -> list[bytes]:
    """Return the keys of a column."""
    if isinstance(column, list):
        return column
    width, number = column[0], _count(column)
    rows = bytearray(len(column) - 1)
    for place in range(width):
        rows[place::width] = column[1 + place * number : 1 + (place + 1) * number]
    joined = bytes(rows)
    return [joined[start : start + width] for start in range(0, len(joined), width)]


class _RecordingTransaction:
    """A transaction of LMDB that notes the rows which it changes. Reading goes to LMDB without a detour."""

    __slots__ = ("_folded", "_logged", "_rows", "_txn", "abort", "commit", "get", "id", "stat")

    def __init__(self, txn: Any, rows: dict[Any, Rows], logged: dict[Any, Logged], folded: set[Any]) -> None:
        self._txn = txn
        self._rows = rows
        self._logged = logged
        self._folded = folded
        self.get, self.stat, self.id = txn.get, txn.stat, txn.id
        self.commit, self.abort = txn.commit, txn.abort

    def cursor(self, db: Any) -> _RecordingCursor:
        return _RecordingCursor(self._txn, db, self._rows[db])

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True, db: Any) -> bool:
        written: bool = self._txn.put(key, value, overwrite=overwrite, db=db)
        rows, logged = self._rows[db], self._logged.get(db)
        if written and (logged is None or logged.get(key) != value or key in rows):
            rows[key] = value  # the counters are written with everything, and are often as they were
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
        *(
            "_cursor",
            "_rows",
            "_put",
            "get",
            "set_key",
            "set_range",
            "first",
            "last",
            "next",
            "prev",
            "key",
            "value",
            "item",
        ),
        *("iternext", "iterprev", "close"),
    )

    def __init__(self, txn: Any, db: Any, rows: Rows) -> None:
        self._cursor = cursor = txn.cursor(db)
        self._rows = rows
        self._put = cursor.put
        self.get, self.set_key, self.set_range = cursor.get, cursor.set_key, cursor.set_range
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
