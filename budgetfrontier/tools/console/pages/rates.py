"""Rates over time, and the queues that spent most in it, from the totals that the engine keeps every minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from budgetfrontier.reports.over_time import DAY, HOUR, LONGEST, between, busiest_known, rate_rows, rates_known
from budgetfrontier.rules.rates import curves
from budgetfrontier.storage.series import SeriesRow
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path

SPANS = {"1h": HOUR, "1d": DAY, "7d": 7 * DAY, "30d": LONGEST}
"""The times that can be looked at, in seconds."""
POINTS = 120
"""Points of a curve."""
TOP = 20

LEVELS: dict[str, Callable[[SeriesRow], int]] = {
    "queued": lambda row: row.queued,
    "retired queues": lambda row: row.retired,
    "exhausted queues": lambda row: row.exhausted,
    "for later": lambda row: row.future,
}
"""The levels at each time, besides the figures."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the rates of a time until now: the rows of `report --kind rates`, with a curve each."""
    span = query.choice("span", SPANS, "1d")
    length = SPANS[span]
    rows, now = job.over_time.rows(job.reader)
    drawn = curves(rows, now - length, now, POINTS)
    busiest = job.reader.busiest(now - length, now)
    inside = [row for row in rows if row.time >= now - length]
    return {
        "span": span,
        "spans": list(SPANS),
        "rates": [(*row, drawn[row[0]]) for row in rate_rows(between(rows), now, length)],
        "known": rates_known(between(rows), now, length),
        "levels": [
            (name, level(inside[-1]), [float(level(row)) for row in inside]) for name, level in LEVELS.items() if inside
        ],
        "busiest": busiest,
        "busiest_known": busiest_known(busiest),
        "top": [(one.queue, job.base + key_path(one.queue), one.spent, one.spent_most) for one in busiest.queues[:TOP]],
    }
