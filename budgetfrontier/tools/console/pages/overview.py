"""The overview: the verdict, the queues by state, rates, and present faults."""

from __future__ import annotations

import shutil
import time
from typing import Any

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.over_time import forecast_sentence, forecast_table
from budgetfrontier.reports.totals import tiles
from budgetfrontier.reports.wrong_now import wrong_now
from budgetfrontier.rules.verdict import verdict
from budgetfrontier.storage.process import process
from budgetfrontier.storage.report import bloom_use
from budgetfrontier.storage.standing import standing
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path
from budgetfrontier.tools.console.sampling import read

TOP = 10
"""Queues in each ranking."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the values of the overview. O(1): those that need all queues are from the latest scan."""
    now = time.time()
    with job.view() as view:  # one commit, for the verdict and for the figures below it
        sample = read(view, now=now)
        running = process(view, job.path)
        bloom = bloom_use(view, view.settings()[0], sample.totals.seen)
        judged = verdict(standing(view, job.path, now=now, totals=sample.totals, running=running))
    scanned = job.scanned()
    found = job.over_time.forecasts(job.reader, sample.totals, scanned.scan.held if scanned else None)
    context: dict[str, Any] = {
        "sample": sample,
        "totals": sample.totals,
        "process": running,
        "verdict": judged,
        "tiles": tiles(sample.totals),
        "rates": job.samples.rates(),
        "sampled": job.samples.seconds(),
        "over_time": job.over_time.curves(job.reader),
        "forecast": forecast_sentence(found),
        "forecasts": list(forecast_table(found)),
        "file": (job.path / "data.mdb").stat().st_size,
        "bloom": bloom,
        "free": shutil.disk_usage(job.path).free,
        "scan": scanned.scan if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
        "wrong": wrong_now(job.path, sample.totals, scanned.scan.spend if scanned else None),
    }
    if scanned:
        spend = scanned.scan.spend
        context |= {
            "top": ranked(job, spend.top, "expenditure"),
            "longest": ranked(job, scanned.scan.longest, "queued"),
            "stranding": ranked(job, spend.stranding, "queued"),
            "waiting_rows": [(f"precedence {grade}", "", count) for grade, count in scanned.scan.waiting[:TOP]],
        }
    return context


def ranked(job: ConsoleJob, queues: list[QueueRecord], amount: str) -> list[tuple[str, str, int]]:
    """Return the first queues with the paths of their pages, and an amount of each."""
    return [(queue.queue, job.base + key_path(queue.queue), getattr(queue, amount)) for queue in queues[:TOP]]
