"""The audit: who changed what, when and why, the newest first."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec.structs import replace

from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.operators import AuditRow, CrawlOperator
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotThere, Query
from budgetfrontier.tools.console.rendering import as_sentence
from budgetfrontier.tools.job_operator import BRIEF_ENTRIES

ROWS = 50


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of entries, or one entry in full."""
    before, only = query.number("before", 0, most=1 << 62), query.text("id")
    command, who, text = query.text("command"), query.text("who"), query.text("q")
    looked_at: list[int] = []

    def matches(entry: AuditEntry) -> bool:
        looked_at.append(entry.id)
        return command in ("", entry.command) and who in ("", entry.who) and text in _all_of(entry, text)

    def read(operator: CrawlOperator) -> dict[str, Any]:
        following = None
        if only:
            rows = [_one(operator, only)]
        else:
            rows = [*islice(operator.audit(where=matches, before=before).rows, ROWS)]
            if len(rows) == ROWS or len(looked_at) == BRIEF_ENTRIES:
                following = looked_at[-1]
        is_partitioned = operator.path is None
        return {
            "rows": [named_entry(row) for row in rows],
            "undoable": {row.id for row in rows if row.inverse},
            "places": {row.id: row.partitions for row in rows} if is_partitioned else None,
            "next": None if following is None or is_partitioned else {"before": following},
            "in_progress": operator.in_progress() or as_sentence(operator.unanswered()),
        }

    asked: dict[str, Any] = {"only": only, "command": command, "who": who, "q": text, "first": {} if before else None}
    return asked | job.look(read)


def _one(operator: CrawlOperator, name: str) -> AuditRow:
    """Return the entry with an id. Raises NotThere."""
    before = int(name) + 1 if name.isascii() and name.isdecimal() and len(name) < 19 else 0
    row = next((row for row in operator.audit(before=before).rows if str(row.id) == name), None)
    if row is None:
        raise NotThere(f"There is no entry {clean(name[:40])} in the audit.")
    return row


def named_entry(row: AuditRow) -> AuditEntry:
    """Return an entry with its name in the whole crawl as its id."""
    return replace(row.entry, id=row.id)


def _all_of(entry: AuditEntry, text: str) -> str:
    return f"{entry.reason} {entry.args} {entry.effect} {sentence(entry)}" if text else ""
