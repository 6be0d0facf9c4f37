"""The inverses of the entries of the audit: the command that takes each back, if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from budgetfrontier.rules.undoing import ENDING, can_be_undone
from budgetfrontier.store.records import AuditEntry


def inverses(entries: Iterable[AuditEntry]) -> Iterator[tuple[AuditEntry, str]]:
    """Yield each entry with its inverse, such as "undo 17"; "" if it has none, or was undone. The newest come first."""
    ended: set[int] = set()
    for entry in entries:
        if entry.command in ENDING and not entry.error and entry.id not in ended:
            ended.add(int(entry.args["id"]))
        can = entry.id not in ended and can_be_undone(entry.command, entry.effect, refused=entry.error is not None)
        yield entry, f"undo {entry.id}" if can else ""
