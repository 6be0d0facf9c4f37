"""The list of jobs with the verdict on each, for a console of several: those that are ill come first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.verdict import last_commit, verdict
from budgetfrontier.storage.process import process
from budgetfrontier.storage.standing import standing
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.sampling import read

_LEVELS = ("bad", "warn", "good")


def build(jobs: Sequence[ConsoleJob]) -> dict[str, Any]:
    """Return a row for each job, the worst first; for one that cannot be read, why not."""
    return {"rows": sorted(map(_row, jobs), key=lambda row: _LEVELS.index(row["level"]))}


def _row(job: ConsoleJob) -> dict[str, Any]:
    row: dict[str, Any] = {"name": job.name, "base": job.base, "folder": str(job.folder.resolve()), "level": "bad"}
    now = time.time()
    try:
        with job.view() as view:
            sample = read(view, now=now)
            running = process(view, job.path)
            stands = standing(view, job.path, now=now, totals=sample.totals, running=running)
        found = verdict(stands)
    except (FrontierError, OSError) as error:
        return row | {"error": str(error)}
    pid = "none" if running.pid is None else f"{running.pid or 'elsewhere'}"
    return row | {
        "error": "", "level": found.level, "verdict": found, "crawl": job.crawl, "totals": sample.totals,
        "committed": last_commit(stands), "process": pid,
    }  # fmt: skip
