"""The inverses of the entries of the audit: the command that takes each back, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from budgetfrontier.rules.undoing import can_be_undone
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.removed import counts


def inverses(entries: Iterable[AuditEntry], name: Callable[[int], object] = int) -> Iterator[tuple[AuditEntry, str]]:
    """Yield each entry with its inverse, such as "undo 17"; "" if it has none, or was undone. The newest come first.

    `name` returns the name of an entry by its number.
    """
    ended: dict[int, AuditEntry] = {}
    for entry in entries:
        end = ended.get(entry.id)
        if counts(entry, end):
            ended.setdefault(int(entry.args["id"]), entry)
        can = end is None and can_be_undone(entry.command, entry.effect, refused=entry.error is not None)
        yield entry, f"undo {name(entry.id)}{' --force' * bool(entry.effect.get('left'))}" if can else ""
