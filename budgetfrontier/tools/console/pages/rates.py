"""Rates over time, and the queues that spent most in it, from the totals that the engine keeps every minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.reports.over_time import (
    SPANS,
    between,
    busiest_known,
    busiest_told,
    fitting,
    levels,
    rate_rows,
)
from budgetfrontier.storage.series import SeriesRow
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path

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
    series, now = job.over_time.series()
    span = query.choice("span", SPANS) or fitting(series, now)
    length, happened = SPANS[span], between(*series)
    rates = list(rate_rows(happened, now, length))
    drawn = [name for name, count, *_ in rates if name == "fetched" or (count and name not in ANSWERS)]
    busiest = job.look(lambda operator: operator.busiest(now - length, now))
    return {
        "curves": job.over_time.curves(span, drawn),
        "spans": list(SPANS),
        "rates": rates,
        "levels": [
            (name, sum(level(rows[-1]) for rows in series if rows), found)
            for name, level in LEVELS.items()
            if any(found := levels(series, level, now, span))
        ],
        "busiest_told": busiest_told(busiest),
        "busiest_known": busiest_known(busiest),
        "top": [(one.queue, job.base + key_path(one.queue), one.spent, one.spent_most) for one in busiest.queues[:TOP]],
    }
