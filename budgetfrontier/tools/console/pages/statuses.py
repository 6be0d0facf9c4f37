"""Statuses: the answers of hosts by class, those that answer with errors, and the kinds of these."""

from __future__ import annotations

from collections import Counter
from typing import Any

from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.reports.format import percent
from budgetfrontier.reports.status_tables import CLASSES, StatusRow, row_of
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path

READ = 1000
"""Queues with most errors whose answers are read."""
ROWS = 100
KINDS = 40


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the answers of a job."""
    totals, scanned = job.sample_now().totals, job.scanned()
    counts = [getattr(totals, name) for name in ANSWERS]
    rows: list[StatusRow] = []
    with job.view() as view:
        if scanned is not None:
            ids, _ = scanned.columns.page("errors", state=None, text="", start=0, limit=READ)
            for queue in queues_by_id(view, ids):
                found = view.answers(queue.id)
                if found is not None:
                    rows.append(StatusRow(queue.queue, found.classes, found.kinds))
    rows.sort(key=lambda row: -row.errors)
    kinds = Counter[str]()
    for row in rows:
        kinds.update(row.kinds)
    errors = sum(row.errors for row in rows)
    return {
        "classes": [
            (name, count, percent(count / sum(counts)) if count else "")
            for name, count in zip(CLASSES, counts, strict=True)
        ],
        "names": CLASSES,
        "rows": [(job.base + key_path(row.queue), *row_of(row, percent)) for row in rows[:ROWS] if row.errors],
        "kinds": [(kind, "", count) for kind, count in kinds.most_common(KINDS)],
        "covered": percent(errors / sum(counts[2:])) if sum(counts[2:]) else "",
        "as_of": scanned.when if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
    }
