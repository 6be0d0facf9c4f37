"""The inverses of the entries of the audit: the command that takes each back, if there is one, and what it needs.

What they need is kept in the frontier until the command is undone, or that is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.undoing import can_be_undone
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.removed import counts, ended_by

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Applied, CrawlOperator


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


def kept_rows(operator: CrawlOperator, before: float) -> tuple[list[KeptRow], str]:
    """Return the commands before a time that keep something, the oldest first, and the sentence on others."""
    found = operator.audit(where=lambda entry: keeps(entry, before))
    return [kept_row(row.id, row.entry) for row in found.rows if row.inverse][::-1], found.left_out


def discard_each(
    operator: CrawlOperator, ids: Iterable[Any], give: Callable[[dict[str, Any]], Applied] | None
) -> tuple[dict[str, Any], str]:
    """Discard what some commands have kept, each by a command of its own; without `give`, in a dry run.

    Returns the effect, and the sentence on partitions that have not applied all of it yet. Raises FrontierError before
    anything is changed if one of them keeps nothing.
    """
    asked = [{"id": name} for name in dict.fromkeys(ids)]
    effect: dict[str, Any] = {"discarded": 0, "bytes": 0}
    shown = [operator.dry_run("discard", one) for one in asked]
    if give is None:
        return effect | {"discarded": len(shown), "bytes": sum(one["bytes"] for one in shown)}, ""
    effect["entries"], left = [], ""
    for one in asked:
        try:
            applied = give(one)
        except FrontierError as error:
            raise FrontierError(f"{error}; {effect['discarded']:,} of {len(asked):,} were discarded before") from None
        left = left or applied.left or applied.refused
        if applied.entry is not None:
            effect["discarded"] += 1
            effect["bytes"] += applied.entry.effect["bytes"]
            effect["entries"].append(applied.entry.id)
    return effect, left


def inverses(entries: Iterable[AuditEntry], name: Callable[[int], object] = int) -> Iterator[tuple[AuditEntry, str]]:
    """Yield each entry with its inverse, such as "undo 17"; "" if it has none, or was undone. The newest come first.

    `name` returns the name of an entry by its number.
    """
    ended: dict[int, AuditEntry] = {}
    for entry in entries:
        end = ended.get(entry.id)
        if counts(entry, end):
            ended |= dict.fromkeys(ended_by(entry) - ended.keys(), entry)
        can = end is None and can_be_undone(entry.command, entry.effect, refused=entry.error is not None)
        yield entry, f"undo {name(entry.id)}{' --force' * bool(entry.effect.get('left'))}" if can else ""
