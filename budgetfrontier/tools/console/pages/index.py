"""The list of jobs with the verdict on each, its rate and its curve, for a console of several: ill ones come first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.wrong_now import LEVELS, wrong_now
from budgetfrontier.rules.verdict import last_commit, verdict
from budgetfrontier.storage.process import process
from budgetfrontier.storage.standing import standing
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.overview import judgement, rate_of
from budgetfrontier.tools.console.sampling import read, with_fetched


def build(jobs: Sequence[ConsoleJob]) -> dict[str, Any]:
    """Return a row for each job, the worst first; for one that cannot be read, why not."""
    rows = sorted(map(_row, jobs), key=lambda row: LEVELS.index(row["level"]))
    counts = [(level, sum(row["level"] == level for row in rows)) for level in LEVELS]
    return {"rows": rows, "counts": [(level, count) for level, count in counts if count]}


def _row(job: ConsoleJob) -> dict[str, Any]:
    row: dict[str, Any] = {"name": job.name, "base": job.base, "folder": str(job.folder.resolve()), "level": "bad"}
    now = time.time()
    try:
        with job.view() as view:
            sample = read(view, now=now)
            running = process(view, job.path)
            stands = standing(view, job.path, now=now, totals=sample.totals, running=running)
        curves = job.over_time.curves("")
    except (FrontierError, OSError) as error:
        return row | {"error": str(error)}
    found = verdict(stands)
    rate = rate_of(with_fetched(job.samples.rates(), stands.rate)) if running.alive else None
    return row | judgement(found, wrong_now(job.path, stands, None), job.base) | {
        "error": "", "crawl": job.crawl, "totals": sample.totals, "rate": rate,
        "curve": curves.figures[0].points, "span": curves.span, "committed": last_commit(stands),
        "alive": running.alive,
    }  # fmt: skip
