"""Notes of a repair: its changes, and the records that were set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from budgetfrontier.storage.damage import MAX_REPORTED
from budgetfrontier.storage.lmdb_pages import Lost
from budgetfrontier.storage.modes import opener


class Notes:
    """The notes of one repair, written to its files, with bytes in hexadecimal."""

    def __init__(self, changes: IO[str], set_aside_file: IO[str]) -> None:
        self._changes = changes
        self._set_aside_file = set_aside_file
        self.first_changes: list[str] = []
        """The first MAX_REPORTED changes."""
        self.changes = self.records_set_aside = 0

    def note_change(self, what: str) -> None:
        self.changes += 1
        if len(self.first_changes) < MAX_REPORTED:
            self.first_changes.append(what)
        self._changes.write(what + "\n")

    def set_aside(self, table: str, key: bytes, value: bytes, why: str) -> None:
        """Note a record that is left out, and write it to the file in full."""
        self.note_change(f"{table}: set aside, {why}")
        self._write({"table": table, "key": key.hex(), "value": value.hex(), "why": why})

    def note_loss(self, lost: Lost) -> None:
        """Note a page, or a part of one, that could not be read."""
        self.note_change(f"{lost.table}: page {lost.page}: {lost.why}" if lost.page else f"{lost.table}: {lost.why}")
        if lost.data:
            self._write({"table": lost.table, "page": lost.page, "data": lost.data.hex(), "why": lost.why})

    def _write(self, line: dict[str, Any]) -> None:
        self._set_aside_file.write(json.dumps(line) + "\n")
        self.records_set_aside += 1


@contextmanager
def notes_in(folder: Path) -> Iterator[Notes]:
    """Open notes in the files `changes.txt` and `set-aside.jsonl` of a folder; sync them at the end.

    The second is removed if no record was set aside.
    """
    changes, left_out = folder / "changes.txt", folder / "set-aside.jsonl"
    with (
        open(changes, "x", encoding="utf-8", errors="backslashreplace", opener=opener) as changed,
        open(left_out, "x", opener=opener) as set_aside_file,
    ):
        notes = Notes(changed, set_aside_file)
        yield notes
        for file in changed, set_aside_file:
            file.flush()
            os.fsync(file.fileno())
    if not notes.records_set_aside:
        left_out.unlink()
