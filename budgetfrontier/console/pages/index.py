"""The list of jobs, for a console of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from budgetfrontier.console.jobs import Job
from budgetfrontier.errors import FrontierError


def build(jobs: Sequence[Job]) -> dict[str, Any]:
    """Return a row for each job; for one that cannot be read, why not."""
    return {"rows": [_row(job) for job in jobs]}


def _row(job: Job) -> dict[str, Any]:
    row: dict[str, Any] = {"name": job.name, "base": job.base, "folder": str(job.folder.resolve()), "error": ""}
    try:
        sample = job.sample_now()
        pid = job.reader.lock_pid()
    except (FrontierError, OSError) as error:
        return row | {"error": str(error)}
    process = "none" if pid is None else f"{pid or 'elsewhere'}"
    return row | {"crawl": job.crawl, "totals": sample.totals, "committed": sample.committed, "process": process}
