"""Rates over time, and the queues that spent most in it, from the totals that the engine keeps every minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.query import Query
from budgetfrontier.console.rendering import key_path
from budgetfrontier.rules.rates import successive
from budgetfrontier.store.series import SeriesRow

SPANS = {"1h": 3600.0, "1d": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
"""The times that can be looked at, in seconds."""
POINTS = 120
"""Points of a curve."""
TOP = 20

COUNTS: dict[str, Callable[[SeriesRow], int]] = {
    "fetched": lambda row: row.succeeded + row.failed + row.retried,
    "discovered": lambda row: row.seen,
    "spent": lambda row: row.expenditure,
    "failed": lambda row: row.failed + row.dead,
    "retried": lambda row: row.retried,
    "duplicates": lambda row: row.duplicates,
}
"""The counts whose rates are shown."""
LEVELS: dict[str, Callable[[SeriesRow], int]] = {
    "queued": lambda row: row.queued,
    "retired queues": lambda row: row.retired,
    "exhausted queues": lambda row: row.exhausted,
    "for later": lambda row: row.future,
}
"""The levels at each time, besides the counts."""


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return the curves of a time until now."""
    span = query.choice("span", SPANS, "1d")
    until = time.time()
    since = until - SPANS[span]
    rows = job.reader.series(since, until)
    busiest = job.reader.busiest(since, until)
    curves = []
    for name, count in COUNTS.items():
        total = sum(max(count(after) - count(before), 0) for before, after in successive(rows))
        curves.append((name, total, buckets(rows, count, since, until)))
    levels = [(name, count(rows[-1]), [float(count(row)) for row in rows]) for name, count in LEVELS.items() if rows]
    return {
        "span": span,
        "spans": list(SPANS),
        "rows": len(rows),
        "curves": [(name, total, total / SPANS[span], points) for name, total, points in curves],
        "levels": levels,
        "busiest": busiest,
        "top": [(one.queue, job.base + key_path(one.queue), one.spent) for one in busiest.queues[:TOP]],
    }


def buckets(
    rows: Sequence[SeriesRow], count: Callable[[SeriesRow], int], since: float, until: float, points: int = POINTS
) -> list[float]:
    """Return the rate a second of a count in equal parts of a time.

    What was counted between two rows is spread evenly over the time between them.
    """
    found, width = [0.0] * points, (until - since) / points
    for before, after in successive(rows):
        seconds, counted = after.time - before.time, max(count(after) - count(before), 0)
        if seconds <= 0 or not counted:
            continue
        at = max(int((before.time - since) / width), 0)
        while at < points and since + at * width < after.time:
            left, right = max(before.time, since + at * width), min(after.time, since + (at + 1) * width)
            found[at] += counted * max(right - left, 0.0) / seconds / width
            at += 1
    return found
