"""The leases: which URIs are out, since when, and until when."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

from budgetfrontier.reports.lease_rows import for_people, lease_rows
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

READ = 5000
"""Leases that are read, at the most."""
ROWS = 200


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the oldest leases."""
    now = time.time()
    with job.view() as view:
        leases = list(islice(view.leases(), READ))
        ttl = view.settings()[0].frontier.lease_ttl
    key = query.text("queue")
    chosen = [lease for lease in leases if key in ("", lease.queue)]
    rows = sorted(lease_rows(chosen, now), key=lambda row: row["began"])
    return {
        "rows": [row | for_people(row, now, "") for row in rows[:ROWS]],
        "matching": len(rows),
        "count": job.sample_now().totals.in_process,
        "cut": len(leases) == READ,
        "ttl": ttl,
        "q": key,
    }
