"""The audit: who changed what, when and why, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

from budgetfrontier.engine.remote import describe_progress
from budgetfrontier.reports.audit_inverses import inverses
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import AuditEntry, decode_audit
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotThere, Query

ROWS = 50
READ = 5000
"""Entries that are read for one page, at the most."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of entries, or one entry in full."""
    before, only = query.number("before", 0, most=1 << 62), query.number("id", 0, most=1 << 62)
    command, who, text = query.text("command"), query.text("who"), query.text("q")
    rows: list[AuditEntry] = []
    following = None
    with job.view() as view:
        if only:
            rows = [entry for entry in _back(view, only + 1, 1) if entry.id == only]
            if not rows:
                raise NotThere(f"There is no entry {only} in the audit.")
        else:
            for looked_at, entry in enumerate(_back(view, before, READ + 1)):
                if len(rows) == ROWS or looked_at == READ:
                    following = entry.id + 1
                    break
                if command in ("", entry.command) and who in ("", entry.who) and text in _all_of(entry, text):
                    rows.append(entry)
        undoable = _undoable(view, rows)
        begun = job.reader.in_progress()
    return {
        "rows": rows,
        "undoable": undoable,
        "only": only,
        "command": command,
        "who": who,
        "q": text,
        "next": None if following is None else {"before": following},
        "first": {} if before else None,
        "in_progress": describe_progress(*begun) if begun else "",
    }


def _undoable(view: View, rows: list[AuditEntry]) -> set[int]:
    """Return the ids of the entries of a page that can be undone, if they are among the newest READ ones."""
    if not rows:
        return set()
    found = takewhile(lambda pair: pair[0].id >= rows[-1].id, inverses(islice(view.newest_commands(), READ)))
    return {entry.id for entry, inverse in found if inverse}


def _all_of(entry: AuditEntry, text: str) -> str:
    return f"{entry.reason} {entry.args} {entry.effect} {sentence(entry)}" if text else ""


def _back(view: View, before: int, most: int) -> Iterator[AuditEntry]:
    """Yield the entries below an id (0: all), the newest first."""
    cursor = view.txn.cursor(view.db[keys.AUDIT])
    found = cursor.last() if not before or not cursor.set_range(keys.u64.pack(before)) else cursor.prev()
    while found and most and cursor.key() != keys.SENTINEL:
        yield decode_audit(cursor.value())
        found, most = cursor.prev(), most - 1
