"""The table of what was deleted: which of it is needed, and what a copy, a check and a repair do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage import backup, keys, removed
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.removed import Block, Kept, Look
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.storage.verify import verify
from tests.storage.repair.damaging import Damage, damaging
from tests.support import on_disk, pages


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frontier of which 6 of 9 URIs are deleted, in three blocks."""
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("ab", 3))
        f.schedule_many(pages("c", 3))
        f.delete(queue="[ab].test")
    return tmp_path / "frontier"


def kept(path: Path) -> list[int]:
    """The audit entries of which something can be put back."""
    with Reader(path) as reader, reader.view() as view:
        return [one.entry for one in removed.needed(view)]


def undone(path: Path) -> int:
    """How many URIs are queued after the undo of the first command."""
    with Frontier.open(path) as f:
        f.undo(1)
        f.check()
        return f.summary().queued


def test_an_effect_of_another_version_has_kept_nothing() -> None:
    assert removed.kept({"kept": "somewhere else"}) is None
    assert removed.kept({"kept": {"number": 3, "bytes": 9}}) == Kept(3, 9)


def test_what_was_undone_or_discarded_is_not_needed(path: Path) -> None:
    with Frontier.open(path) as f:
        f.delete(queue="c.test")
        f.undo(1)
        f.commit()
        assert kept(path) == [2]
        f.internals.discard(2)
        f.commit()
        f.check()
        assert kept(path) == []
        with Reader(path) as reader:
            assert reader.report().removed == 0
        with pytest.raises(FrontierError, match="has discarded what was kept"):
            f.undo(2)


def test_a_backup_and_a_compact_frontier_have_what_can_be_undone(path: Path, tmp_path: Path) -> None:
    with Reader(path) as reader:
        assert reader.report().removed == reader.audit()[0].effect["kept"]["bytes"] > 0
        reader.backup(tmp_path / "copy")
    verify(tmp_path / "copy")
    backup.compact(path)
    assert undone(path) == undone(tmp_path / "copy") == 9


BAD = {
    "another table": Block("queues", [], [(b"1234", b"\xc0")]),
    "an unknown table": Block("leases", [], [(b"1" * 8, b"")]),
    "no queue": Block("pending", [], [(bytes(21), b"\xff/")]),
    "no URL": Block("pending", [Look(0, "a.test", False)], [(bytes(21), b"\xff")]),
    "a rank": Block("pending", [Look(0, "a.test", False)], [(bytes(9), b"\xff/")]),
    "no row": Block("future", [Look(0, "a.test", False)], [(bytes(16), b"\xff/")]),
    "no letter": Block("dead", [], [(bytes(8), b"")]),
    "no fingerprint": Block("seen", [], [(bytes(8), b"")]),
    "a value": Block("seen", [], [(bytes(16), b"x")]),
    "no URL row": Block("urls", [], [(bytes(16), b"x")]),
}


@pytest.mark.parametrize("what", [*BAD, "no block", "lost", "not ours"])
def test_what_cannot_be_put_back_is_told_and_repaired(path: Path, what: str) -> None:
    verify(path)

    def spoil(damage: Damage) -> None:
        blocks = damage.items(keys.REMOVED)
        assert len(blocks) == 3
        if what == "lost":
            damage.delete(keys.REMOVED, blocks[1][0])
        elif what == "not ours":
            damage.put(keys.REMOVED, keys.removed.pack(9, 0), blocks[0][1])
        else:
            damage.put(keys.REMOVED, blocks[1][0], encode(BAD[what]) if what in BAD else b"\xc1")

    with damaging(path) as damage:
        spoil(damage)
    with pytest.raises(CorruptFrontier, match="removed"):
        verify(path)
    done = repair(path)
    assert any("`undo`" in line or "removed" in line for line in done.first_changes)
    assert done.set_aside == (what != "lost")
    verify(path)
    assert undone(path) == (9 if what == "not ours" else 7)


def test_a_lost_audit_entry_takes_what_it_has_kept_along(path: Path) -> None:
    with damaging(path) as damage:
        damage.delete(keys.AUDIT, keys.u64.pack(1))
    with pytest.raises(CorruptFrontier, match="of no command that can be undone"):
        verify(path)
    assert repair(path).set_aside == 3
    verify(path)
    with Frontier.open(path) as f:
        f.check()


def test_a_command_in_progress_is_repaired_with_what_it_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    path = tmp_path / "frontier"
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("a", 6))
        box = Mailbox(path)
        box.post(Command("delete", {"queue": "a.test"}, "", ""))
        box.close()
        f.commit()
    verify(path)
    with damaging(path) as damage:
        damage.delete(keys.REMOVED, keys.removed.pack(1, 0))
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


@pytest.mark.parametrize("op", ["undo", "discard"])
def test_a_part_of_what_an_undo_in_progress_takes_out_may_be_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    with Frontier.open(path) as f:
        box = Mailbox(path)
        box.post(Command(op, {"id": 1, "force": True} if op == "undo" else {"id": 1}, "", ""))
        box.close()
        f.commit()
        f.check()
    verify(path)
    with Reader(path) as reader:
        assert reader.in_progress() is not None
    assert not repair(path).first_changes
    with Frontier.open(path) as f:
        for _ in range(9):
            f.commit()
        assert (f.summary().queued, kept(path)) == (9 if op == "undo" else 3, [])
        f.check()
