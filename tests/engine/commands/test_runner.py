"""Commands applied: once each, in their order, and each with its audit entry, whether it was refused or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, FrontierError
from tests.support import on_disk, pages, post, state


def told(f: Frontier) -> list[tuple[int, str, str | None]]:
    """The audit: number in the mailbox, command, error."""
    return [(entry.number, entry.command, entry.error) for entry in f.audit()]


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("delete", {}),
        ("delete", {"queue": None, "pattern": ""}),
        ("delete", {"glob": "a.test"}),
        ("drop", {"letters": [1]}),
        ("pause", {"until": 3.0}),
    ],
)
def test_a_command_without_what_it_is_about_or_with_what_it_does_not_take_is_refused(
    tmp_path: Path, command: str, args: dict[str, Any]
) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 2))
        post(tmp_path / "frontier", command, **args)
        f.commit()
        (entry,) = f.audit()
        assert entry.error is not None and ("delete what?" in entry.error or f"{command} does not take" in entry.error)
        assert f.summary().queued == 2 and f.state == "RUNNING"
        with pytest.raises(FrontierError, match="delete what"):
            f.delete()
        f.check()


def test_what_is_refused_is_audited_and_changes_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
        post(tmp_path / "frontier", "explode")
        post(tmp_path / "frontier", "retire", queue="nobody.test")
        post(tmp_path / "frontier", "retire", queue="a.test")
        f.commit()
        (unknown, nobody, last) = told(f)
        assert unknown[2] is not None and "unknown command 'explode'" in unknown[2] and "retire" in unknown[2]
        assert nobody[2] is not None and "nobody.test" in nobody[2]
        assert last == (3, "retire", None) and state(f, "A") == "RETIRED"
        f.check()
