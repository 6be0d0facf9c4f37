"""The delivery of commands: in their order, once each, and which of them overtake a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.engine.commands import runner
from budgetfrontier.testing import crash
from tests.support import on_disk, pages, post, state


def told(f: Frontier) -> list[tuple[int, str, str | None]]:
    """The audit: number in the mailbox, command, error."""
    return [(entry.number, entry.command, entry.error) for entry in f.audit()]


def test_commands_are_applied_in_their_order_once_each(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        post(tmp_path / "frontier", "retire", queue="a.test")
        post(tmp_path / "frontier", "unretire", queue="a.test")
        post(tmp_path / "frontier", "pause")
        for _ in range(3):
            f.commit()
        assert told(f) == [(1, "retire", None), (2, "unretire", None), (3, "pause", None)]
        assert state(f, "A") == "INACTIVE" and str(f.state) == "PAUSED"
    with on_disk(tmp_path) as f:
        assert len(f.audit()) == 3  # nor again when it is opened anew


def test_a_command_whose_commit_was_lost_is_applied_again(tmp_path: Path) -> None:
    f = on_disk(tmp_path, hold_queues=False)
    f.schedule_many(pages("A", 2))
    f.commit()
    crash(f)
    post(tmp_path / "frontier", "retire", queue="a.test")
    with on_disk(tmp_path) as f:
        f.commit()
        assert told(f) == [(1, "retire", None)] and state(f, "A") == "RETIRED"


def test_a_pause_overtakes_a_long_command_and_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("ABCDEF", 3))
        post(tmp_path / "frontier", "delete", pattern="/0$")
        post(tmp_path / "frontier", "retire", queue="a.test")
        post(tmp_path / "frontier", "pause")
        f.commit()
        assert [entry[1] for entry in told(f)] == ["pause"] and state(f, "A") != "RETIRED"
        while len(f.audit()) < 3:
            f.commit()
        assert [entry[:2] for entry in told(f)] == [(3, "pause"), (1, "delete"), (2, "retire")]
        assert f.summary().queued + 2 == 6 * 2  # two of those that are left are on the queue that is retired
        f.check()
