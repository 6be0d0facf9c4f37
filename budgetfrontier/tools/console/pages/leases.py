"""The leases: which URIs are out, since when, and until when."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

from budgetfrontier.reports.lease_rows import for_people, lease_rows
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence

READ = 5000
"""Leases that are read, at the most."""
ROWS = 200


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the oldest leases."""
    now = time.time()
    key = query.text("queue")
    if job.is_folder:
        with job.view() as view:
            leases, ttl, left_out = list(islice(view.leases(), READ)), view.settings()[0].frontier.lease_ttl, ""
    else:
        found, ttl = job.look(lambda one: (one.leases(), one.settings.frontier.lease_ttl))
        leases, left_out = list(found.rows), as_sentence(found.left_out)
    chosen = [lease for lease in leases if key in ("", lease.queue)]
    rows = sorted(lease_rows(chosen, now), key=lambda row: row["began"])
    return {
        "rows": [row | for_people(row, now, "") for row in rows[:ROWS]],
        "matching": len(rows),
        "count": job.sample_now().totals.in_process,
        "cut": job.is_folder and len(leases) == READ,
        "left_out": left_out,
        "ttl": ttl,
        "q": key,
    }
