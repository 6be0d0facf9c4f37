"""The notes of a repair: each change a line, each record that was set aside whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier.storage.damage import MAX_REPORTED
from budgetfrontier.storage.lmdb_pages import Lost
from budgetfrontier.storage.repair.notes import notes_in


def test_changes_and_what_was_set_aside_are_written_down(tmp_path: Path) -> None:
    with notes_in(tmp_path) as notes:
        notes.note_change("totals: counted anew")
        notes.set_aside("seen", b"\x01", b"\xff", "no fingerprint")
        notes.note_loss(Lost("pending", 7, "it has another number", b"\x02"))
        notes.note_loss(Lost("dead", 0, "its root is lost"))
    assert (notes.changes, notes.records_set_aside) == (4, 2)
    assert (tmp_path / "changes.txt").read_text().splitlines() == notes.first_changes
    assert notes.first_changes[2:] == ["pending: page 7: it has another number", "dead: its root is lost"]
    aside = [json.loads(line) for line in (tmp_path / "set-aside.jsonl").read_text().splitlines()]
    assert aside == [
        {"table": "seen", "key": "01", "value": "ff", "why": "no fingerprint"},
        {"table": "pending", "page": 7, "data": "02", "why": "it has another number"},
    ]


def test_the_first_changes_are_kept_and_a_file_of_nothing_is_removed(tmp_path: Path) -> None:
    with notes_in(tmp_path) as notes:
        for number in range(MAX_REPORTED + 5):
            notes.note_change(f"change {number} of \ud800")
    assert len(notes.first_changes) == MAX_REPORTED and notes.changes == MAX_REPORTED + 5
    assert [file.name for file in tmp_path.iterdir()] == ["changes.txt"]


def test_notes_of_another_repair_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "changes.txt").write_text("older")
    with pytest.raises(FileExistsError), notes_in(tmp_path):
        pass
    assert (tmp_path / "changes.txt").read_text() == "older"
