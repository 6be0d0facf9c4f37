"""The new tables that a repair writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import lmdb

from budgetfrontier.storage import keys
from budgetfrontier.storage.lmdb_pages import Record

_BATCH = 50_000  # records between two commits
_AT_A_TIME = 1000  # records that are read before any of them is yielded


class NewTables:
    """The tables of a new environment, filled record by record, with a commit after each batch."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._db: keys.Tables = {name: env.open_db(name.encode()) for name in keys.TABLES}
        self._txn = env.begin(write=True)
        self._uncommitted = 0
        for name in keys.TABLES:
            self.put(name, keys.SENTINEL, b"")

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = False) -> bool:
        """Store a record. Return False if the key exists already: unless `overwrite`, the old record stays."""
        if self._uncommitted == _BATCH:
            self._txn.commit()
            self._txn = self._env.begin(write=True)
            self._uncommitted = 0
        self._uncommitted += 1
        return bool(self._txn.put(key, value, overwrite=overwrite, db=self._db[table]))

    def delete(self, table: str, key: bytes) -> None:
        """Delete a record."""
        self._txn.delete(key, db=self._db[table])

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none."""
        return self._txn.get(key, db=self._db[table])

    def records(self, table: str) -> Iterator[Record]:
        """Yield the records of a table in order, without the sentinel; they may be changed meanwhile."""
        key = keys.FIRST
        while True:
            cursor = self._txn.cursor(self._db[table])
            found = list(islice(cursor, _AT_A_TIME)) if cursor.set_range(key) else []
            if not found:
                return
            yield from found
            key = found[-1][0] + b"\0"

    def entries(self, table: str) -> int:
        """Count the records of a table. O(1)."""
        return int(self._txn.stat(self._db[table])["entries"]) - 1

    def finish(self) -> None:
        """Commit the remaining records."""
        self._txn.commit()
