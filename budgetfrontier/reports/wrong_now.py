"""The list of present problems of a crawl, beside its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from budgetfrontier.core.model import QueueState
from budgetfrontier.core.units import format_size
from budgetfrontier.reports import action_results, alert_state
from budgetfrontier.reports.alert_state import AlertFiles
from budgetfrontier.reports.format import counted, percent
from budgetfrontier.reports.overview import SpendDistribution
from budgetfrontier.rules.verdict import Standing
from budgetfrontier.storage.disks import free_bytes

_LITTLE = 1 << 30  # bytes of free disk
_RETIRED, _PENALTIES, _ONE_QUEUE = 0.2, 0.25, 0.5  # shares worth a line
_EVEN = 2  # times as much as an even share: in a job of two queues, half is what each has
_MANY_DEAD = 0.05  # of the URIs that have ended: a share worth a warning
LEVELS = ("bad", "warn", "good")
"""The levels of verdicts and of problems, the worst first."""


class PresentProblem(NamedTuple):
    """A problem in one sentence, with a stable `slug` for programs.

    `level` is that of a verdict: "good" is a remark, "warn" something to look at, "bad" something that ends the crawl.
    """

    slug: str
    level: str
    text: str
    queue: str = ""
    """The key of the queue that it is about; "" if it is about many."""


def worst(levels: Iterable[str]) -> str:
    """Return the worst of the levels of a verdict and of problems."""
    return min(levels, key=LEVELS.index)


def wrong_now(
    path: Path | None, standing: Standing, spend: SpendDistribution | None, *, alerts: AlertFiles | None = None
) -> list[PresentProblem]:
    """Return the present problems; `spend` is None as long as it is not known.

    `path` is that of a frontier, on the disk to check, None for a crawl in partitions. `alerts` are the files of its
    alerts, those of the job by default.
    """
    if path is not None and path.name == "frontier":  # else it is one without a job
        alerts = AlertFiles.of_job(path.parent)
    totals, counts = standing.totals, standing.totals.queues
    found: list[PresentProblem] = []
    queues = sum(counts.values()) or 1
    if (share := counts.get(QueueState.RETIRED, 0) / queues) > _RETIRED:
        by_name = f", {standing.retired_by_name:,} of them by an operator" if standing.retired_by_name else ""
        found.append(PresentProblem("retired", "warn", f"{percent(share)} of the queues are RETIRED{by_name}."))
    if totals.dead:
        level = "warn" if totals.dead > _MANY_DEAD * (totals.succeeded + totals.failed) else "good"
        text = f"{counted(totals.dead, 'dead letter')}: URIs that have failed for good."
        found.append(PresentProblem("dead_letters", level, text))
    if path is not None and (free := free_bytes(path)) < _LITTLE:
        found.append(PresentProblem("disk", "bad", f"Only {format_size(free)} of the disk are free."))
    if path is not None and (failed := action_results.failed(path)):
        found.append(PresentProblem("action_files", "warn", failed))
    if alerts is not None:
        found += (PresentProblem(*alert) for alert in alert_state.problems(alerts))
    if spend is not None and spend.total:
        if (share := spend.penalties / spend.total) > _PENALTIES:
            text = f"{percent(share)} of what was spent are penalties for errors."
            found.append(PresentProblem("penalties", "warn", text))
        share = spend.top[0].expenditure / spend.total
        if share > _ONE_QUEUE and share > _EVEN / spend.spenders:
            key = spend.top[0].queue
            text = f"One queue, {key}, has spent {percent(share)} of the whole."
            found.append(PresentProblem("one_queue", "warn", text, key))
    return found
