"""What a repair writes: the new tables, and notes of what was changed and what was set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import lmdb

from budgetfrontier.store import keys
from budgetfrontier.store.lmdb_pages import Lost
from budgetfrontier.store.modes import opener

TOLD = 20  # changes that are kept to be told at once
_BATCH = 50_000  # records between two commits


class Tables:
    """The tables of a new environment, filled record by record and committed now and then."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._db: dict[str, Any] = {name: env.open_db(name.encode()) for name in keys.TABLES}
        self._txn = env.begin(write=True)
        self._uncommitted = 0
        for name in keys.TABLES:
            self.put(name, keys.SENTINEL, b"")

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = False) -> bool:
        """Store a record; False if there is one of that key already, which stays unless `overwrite`."""
        if self._uncommitted == _BATCH:
            self._txn.commit()
            self._txn = self._env.begin(write=True)
            self._uncommitted = 0
        self._uncommitted += 1
        return bool(self._txn.put(key, value, overwrite=overwrite, db=self._db[table]))

    def get(self, table: str, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._txn.get(key, db=self._db[table])

    def entries(self, table: str) -> int:
        """How many records a table holds."""
        return int(self._txn.stat(self._db[table])["entries"]) - 1

    def finish(self) -> None:
        """Commit what is left."""
        self._txn.commit()


class Notes:
    """What was done, for the files of a repair; bytes are hexadecimal there."""

    def __init__(self, changes: IO[str], aside: IO[str]) -> None:
        self._changes = changes
        self._aside = aside
        self.told: list[str] = []
        self.changes = self.set_aside = 0

    def say(self, what: str) -> None:
        """Something was changed."""
        self.changes += 1
        if len(self.told) < TOLD:
            self.told.append(what)
        self._changes.write(what + "\n")

    def aside(self, table: str, key: bytes, value: bytes, why: str) -> None:
        """A record was left out."""
        self.say(f"{table}: set aside, {why}")
        self._write({"table": table, "key": key.hex(), "value": value.hex(), "why": why})

    def page(self, lost: Lost) -> None:
        """A page, or a part of one, could not be used."""
        self.say(f"{lost.table}: page {lost.page}: {lost.why}" if lost.page else f"{lost.table}: {lost.why}")
        if lost.data:
            self._write({"table": lost.table, "page": lost.page, "data": lost.data.hex(), "why": lost.why})

    def _write(self, line: dict[str, Any]) -> None:
        self._aside.write(json.dumps(line) + "\n")
        self.set_aside += 1


@contextmanager
def notes_in(folder: Path) -> Iterator[Notes]:
    """Notes in the files `changes.txt` and, if anything is, `set-aside.jsonl` of a folder, synced at the end."""
    changes, aside = folder / "changes.txt", folder / "set-aside.jsonl"
    with (
        open(changes, "x", encoding="utf-8", errors="backslashreplace", opener=opener) as told,
        open(aside, "x", opener=opener) as left_out,
    ):
        notes = Notes(told, left_out)
        yield notes
        for file in told, left_out:
            file.flush()
            os.fsync(file.fileno())
    if not notes.set_aside:
        aside.unlink()
