"""Notes of a repair: what was changed, and the records that were set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from budgetfrontier.store.damage import MAX_REPORTED
from budgetfrontier.store.lmdb_pages import Lost
from budgetfrontier.store.modes import opener


class Notes:
    """The notes of one repair, written to its files; bytes are hexadecimal there."""

    def __init__(self, changes: IO[str], aside: IO[str]) -> None:
        self._changes = changes
        self._aside = aside
        self.first_changes: list[str] = []
        """The first changes."""
        self.changes = self.records_set_aside = 0

    def say(self, what: str) -> None:
        """Note a change."""
        self.changes += 1
        if len(self.first_changes) < MAX_REPORTED:
            self.first_changes.append(what)
        self._changes.write(what + "\n")

    def set_aside(self, table: str, key: bytes, value: bytes, why: str) -> None:
        """Note a record that is left out, and write it down whole."""
        self.say(f"{table}: set aside, {why}")
        self._write({"table": table, "key": key.hex(), "value": value.hex(), "why": why})

    def page(self, lost: Lost) -> None:
        """Note a page, or a part of one, that could not be used."""
        self.say(f"{lost.table}: page {lost.page}: {lost.why}" if lost.page else f"{lost.table}: {lost.why}")
        if lost.data:
            self._write({"table": lost.table, "page": lost.page, "data": lost.data.hex(), "why": lost.why})

    def _write(self, line: dict[str, Any]) -> None:
        self._aside.write(json.dumps(line) + "\n")
        self.records_set_aside += 1


@contextmanager
def notes_in(folder: Path) -> Iterator[Notes]:
    """Open notes in the files `changes.txt` and `set-aside.jsonl` of a folder; they are synced at the end.

    The second one is removed if nothing was set aside.
    """
    changes, aside = folder / "changes.txt", folder / "set-aside.jsonl"
    with (
        open(changes, "x", encoding="utf-8", errors="backslashreplace", opener=opener) as changed,
        open(aside, "x", opener=opener) as left_out,
    ):
        notes = Notes(changed, left_out)
        yield notes
        for file in changed, left_out:
            file.flush()
            os.fsync(file.fileno())
    if not notes.records_set_aside:
        aside.unlink()
