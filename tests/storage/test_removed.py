"""The files of what was deleted: their blocks, which of them are needed, what a copy, a check and a repair do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands import runner
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage import backup, removed
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.removed import Block, Kept, Look, encode_block, read_block
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.storage.verify import verify
from tests.support import on_disk, pages

BLOCKS = [
    Block("pending", [Look(1, "a.test", False, False, 3)], [(b"key", b"value"), (b"other", b"")]),
    Block("dead", [], [(b"\0" * 8, b"letter")]),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frontier of which 6 of 9 URIs are deleted, in three blocks."""
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("ab", 3))
        f.schedule_many(pages("c", 3))
        f.delete(queue="[ab].test")
    return tmp_path / "frontier"


def the_file(path: Path) -> Path:
    (found,) = removed.files(path).values()
    return found


def undone(path: Path) -> int:
    """How many URIs are queued after the undo of the first command."""
    with Frontier.open(path) as f:
        f.undo(1)
        f.check()
        return f.summary().queued


def test_a_block_is_read_as_it_was_written() -> None:
    data = b"".join(map(encode_block, BLOCKS))
    file = io.BytesIO(data + b"what was never committed")
    first, at = read_block(file, 0, len(data))
    second, end = read_block(file, at, len(data))
    assert ([first, second], end) == (BLOCKS, len(data))


def test_a_block_with_any_byte_changed_or_missing_is_damage() -> None:
    data = encode_block(BLOCKS[0])
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for bad in changed, data[:at]:
            with pytest.raises(Damage):
                read_block(io.BytesIO(bad), 0, len(bad))


def test_other_names_are_no_files_of_these(tmp_path: Path) -> None:
    (tmp_path / "removed").mkdir()
    for name in "6.deleted", "notes.txt", "x.deleted", ".deleted", "7.deleted.old":
        (tmp_path / "removed" / name).touch()
    assert removed.files(tmp_path).keys() == {6}


def test_an_effect_of_another_version_has_kept_nothing() -> None:
    assert removed.kept({"kept": "somewhere else"}) is None
    assert removed.kept({"kept": {"file": 3, "bytes": 9}}) == Kept(3, 9)


def test_what_was_undone_or_discarded_is_not_needed(path: Path) -> None:
    with Frontier.open(path) as f:
        f.delete(queue="c.test")
        f.undo(1)
        f.commit()
        with Reader(path) as reader, reader.view() as view:
            assert [number for number, _ in removed.needed(view)] == [2]
        assert removed.files(path).keys() == {2}
        f.internals.discard(2)
        f.commit()
        with Reader(path) as reader, reader.view() as view:
            assert list(removed.needed(view)) == []
        assert removed.files(path) == {}
        with pytest.raises(FrontierError, match="has discarded what was kept"):
            f.undo(2)


def test_a_backup_has_what_can_be_undone_and_a_compact_frontier_keeps_it(path: Path, tmp_path: Path) -> None:
    the_file(path).with_name("99.deleted").write_bytes(b"not needed")
    with Reader(path) as reader:
        reader.backup(tmp_path / "copy")
    assert removed.files(tmp_path / "copy").keys() == {1}
    verify(tmp_path / "copy")
    backup.compact(path)
    assert undone(path) == undone(tmp_path / "copy") == 9


def test_a_backup_has_what_is_undone_while_it_is_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_removed = removed.copy_removed

    with Frontier.open(path) as f, Reader(path) as reader:

        def late(*args: Any) -> None:
            f.undo(1)
            f.commit()
            assert removed.files(path) == {}
            copy_removed(*args)

        monkeypatch.setattr("budgetfrontier.storage.reader.copy_removed", late)
        reader.backup(tmp_path / "copy")
    assert undone(tmp_path / "copy") == 9


def test_a_backup_without_the_file_says_so(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    the_file(path).unlink()
    (path / "removed" / "5.deleted").touch()
    with Reader(path) as reader:
        reader.backup(tmp_path / "copy")
    assert "1.deleted is not in the copy" in caplog.text


@pytest.mark.parametrize("what", ["missing", "damaged", "short"])
def test_a_file_that_cannot_be_read_is_told_and_repaired(path: Path, what: str) -> None:
    verify(path)
    file = the_file(path)
    data = file.read_bytes()
    _, second = read_block(io.BytesIO(data), 0, len(data))
    if what == "missing":
        file.unlink()
    else:
        file.write_bytes(data[: second + 9] + (b"" if what == "short" else bytes(len(data) - second - 9)))
    with pytest.raises(CorruptFrontier, match=r"removed/1\.deleted: what audit entry 1 has deleted cannot be put back"):
        verify(path)
    with Frontier.open(path) as f:
        with pytest.raises(FrontierError, match=r"cannot be read: .*1\.deleted"):
            f.undo(1)
        assert f.summary().queued == 3
    done = repair(path)
    assert any("cannot be put back" in line for line in done.first_changes)
    verify(path)
    if what == "missing":
        with Frontier.open(path) as f, pytest.raises(FrontierError, match="not kept"):
            f.undo(1)
    else:
        assert undone(path) == 3 + 2


def test_a_command_in_progress_is_repaired_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from budgetfrontier.engine.commands.mailbox import Command, Mailbox

    monkeypatch.setattr(runner, "STEP", 2)
    path = tmp_path / "frontier"
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("a", 6))
        box = Mailbox(path)
        box.post(Command("delete", {"queue": "a.test"}, "", ""))
        box.close()
        f.commit()
    verify(path)
    the_file(path).unlink()
    with pytest.raises(CorruptFrontier, match="the command in progress"):
        verify(path)
    repair(path)
    verify(path)
    with Frontier.open(path) as f:
        for _ in range(9):
            f.commit()
        assert f.audit(limit=1)[0].effect["deleted"] == 6
        f.undo(f.audit(limit=1)[0].id)
        assert f.summary().queued == 4
        f.check()
