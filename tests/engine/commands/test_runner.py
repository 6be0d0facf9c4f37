"""Commands applied: once each, in their order, and each with its audit entry, whether it was refused or not."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Frontier
from tests.support import on_disk, pages, post, state


def told(f: Frontier) -> list[tuple[int, str, str | None]]:
    """The audit: number in the mailbox, command, error."""
    return [(entry.number, entry.command, entry.error) for entry in f.audit()]


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
