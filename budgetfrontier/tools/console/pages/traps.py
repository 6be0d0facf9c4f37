"""The queues that look like crawler traps, with the evidence and what would hold each."""

from __future__ import annotations

from typing import Any

from budgetfrontier.reports.operators import Selection
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import from_row, of_scan
from budgetfrontier.tools.console.query import Query

_FARTHEST = 100_000  # suspicious queue that a page begins with


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of suspicious queues: of a job those of its last scan, else those that its partitions find."""
    start = query.number("start", 0, most=_FARTHEST)
    if job.is_folder:
        scanned = job.scanned()
        found = [] if scanned is None else scanned.scan.suspects
    else:
        found = job.look(lambda operator: operator.traps(Selection(), None))
    return {
        "rows": found[start : start + query.rows],
        "count": len(found),
        **from_row(query, start, more=len(found) > start + query.rows),
    } | of_scan(job)
