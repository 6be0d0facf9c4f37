"""The list of present faults of a crawl, beside its verdict."""

from __future__ import annotations

import shutil
from pathlib import Path

from budgetfrontier.core.model import QueueState, Summary
from budgetfrontier.core.units import format_size
from budgetfrontier.reports.format import counted, percent
from budgetfrontier.reports.overview import SpendDistribution

_LITTLE = 1 << 30  # bytes of free disk
_RETIRED, _PENALTIES, _ONE_QUEUE = 0.2, 0.25, 0.5  # shares worth a line


def wrong_now(path: Path | None, totals: Summary, spend: SpendDistribution | None) -> list[str]:
    """Return the present problems, a sentence each; `spend` is None as long as it is not known.

    `path` is a folder on the disk to check, None for a crawl without one folder.
    """
    counts = totals.queues
    found: list[str] = []
    queues = sum(counts.values()) or 1
    if (share := counts.get(QueueState.RETIRED, 0) / queues) > _RETIRED:
        found.append(f"{percent(share)} of the queues are RETIRED.")
    if totals.dead:
        found.append(f"{counted(totals.dead, 'dead letter')}: URIs that have failed for good.")
    if path is not None and (free := shutil.disk_usage(path).free) < _LITTLE:
        found.append(f"Only {format_size(free)} of the disk are free.")
    if spend is not None and spend.total:
        if (share := spend.penalties / spend.total) > _PENALTIES:
            found.append(f"{percent(share)} of what was spent are penalties for errors.")
        if spend.spenders > 1 and (share := spend.top[0].expenditure / spend.total) > _ONE_QUEUE:
            found.append(f"One queue, {spend.top[0].queue}, has spent {percent(share)} of the whole.")
    return found
