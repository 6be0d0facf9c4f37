"""The inverses of the entries of the audit: the command that takes each back, if there is one, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from budgetfrontier.rules.undoing import can_be_undone
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.removed import counts


class KeptRow(NamedTuple):
    """A command of the audit that has kept something for its undo: the `uris` that it has taken, and its `bytes`."""

    id: Any
    command: str
    when: float
    who: str
    uris: int | None
    bytes: int
    reason: str


def kept_row(name: Any, entry: AuditEntry) -> KeptRow:
    """Return what an entry keeps; it must keep something. `name` is its id in the whole crawl."""
    uris = entry.effect.get("deleted", entry.effect.get("dropped"))
    return KeptRow(name, entry.command, entry.when, entry.who, uris, int(entry.effect["kept"]["bytes"]), entry.reason)


def keeps(entry: AuditEntry, before: float) -> bool:
    """Return whether an entry that is older than a time has kept something, which may be undone or discarded since."""
    return entry.when <= before and bool(entry.effect.get("kept"))


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
