"""The list of what is wrong with a crawl now, beside its verdict."""

from __future__ import annotations

import shutil

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.sampling import Sample
from budgetfrontier.console.scan_process import Scan
from budgetfrontier.model import QueueState
from budgetfrontier.reports.format import counted, percent
from budgetfrontier.units import format_size

_LITTLE = 1 << 30  # bytes of free disk
_RETIRED, _PENALTIES, _ONE_QUEUE = 0.2, 0.25, 0.5  # shares worth a line


def wrong_now(job: Job, sample: Sample, scan: Scan | None) -> list[str]:
    """Return what an operator should know, a sentence each."""
    totals, counts = sample.totals, sample.totals.queues
    found: list[str] = []
    queues = sum(counts.values()) or 1
    if (share := counts.get(QueueState.RETIRED, 0) / queues) > _RETIRED:
        found.append(f"{percent(share)} of the queues are RETIRED.")
    if totals.dead:
        found.append(f"{counted(totals.dead, 'dead letter')}: URIs that have failed for good.")
    if (free := shutil.disk_usage(job.path).free) < _LITTLE:
        found.append(f"Only {format_size(free)} of the disk are free.")
    if scan is not None and scan.spend.total:
        spend = scan.spend
        if (share := spend.penalties / spend.total) > _PENALTIES:
            found.append(f"{percent(share)} of what was spent are penalties for errors.")
        if spend.spenders > 1 and (share := spend.top[0].expenditure / spend.total) > _ONE_QUEUE:
            found.append(f"One queue, {spend.top[0].queue}, has spent {percent(share)} of the whole.")
    return found
