"""Two jobs of the console, or two runs of one, side by side, and the hosts on which they differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from budgetfrontier.core.converters import converter
from budgetfrontier.reports.crawl_comparison import (
    MEASURES,
    SIDES,
    ComparedQueue,
    Comparison,
    NoSuchRun,
    compared_runs,
    too_short,
)
from budgetfrontier.rules.rates import FIGURES
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import BeingMade, NotThere, Query
from budgetfrontier.tools.console.rendering import key_path

ROWS = 50
_RUNS = 50  # that are offered
_as_comparison = converter(Comparison)


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a comparison if one is asked for, and what can be compared."""
    others = {one.slug: one for one in job.others if one is not job and one.is_folder and job.is_folder}
    other = query.choice("with", others)
    first, second = (query.number(name, 0, most=1 << 31) for name in ("run", "run2"))
    shown = MEASURES if other else MEASURES[:2]
    by = query.choice("by", shown, "fetched")
    runs = job.look(lambda operator: operator.runs())
    found, names = None, ("", "")
    as_of, making = None, False
    if other:
        names = (job.slug, other)
        try:
            found, as_of = compared_jobs(job, others[other], by, ROWS)
        except BeingMade:
            making = True
    elif first and second:
        found, names = _runs(job, first, second, by), (f"run {first}", f"run {second}")
    return {
        "names": names,
        "others": list(others),
        "with_": other,
        "runs": runs[: -_RUNS - 1 : -1],
        "run": first or (runs[-2].number if len(runs) > 1 else 0),
        "run2": second or (runs[-1].number if runs else 0),
        "by": by,
        "measures": MEASURES,
        "shown": shown,
        "queues": found.queues if found else {},
        "sides": SIDES,
        "untold": found.untold if found else "",
        "unsure": found.unsure if found else [],
        "compared": found is not None,
        "as_of": as_of,
        "making": making,
        "refresh": int(making),
        "totals": _totals(found) if found else [],
        "short": [(name, too_short(ran)) for name, ran in zip(names, found.ran, strict=True)] if found else [],
        "rows": [_row(job, one, shown, by) for one in found.rows if one.difference(by)] if found else [],
        "most": max((abs(one.difference(by)) for one in found.rows), default=0) if found else 0,
    }


def compared_jobs(one: ConsoleJob, other: ConsoleJob, by: str, limit: int) -> tuple[Comparison, float]:
    """Return two jobs side by side as of a time, by the command that reads all their queues. Raises BeingMade."""
    made = one.from_command("compare", str(other.folder), "--by", by, "--limit", str(limit))
    return _as_comparison(made.found), made.when


def _runs(job: ConsoleJob, first: int, second: int, by: str) -> Comparison:
    try:
        return job.look(lambda operator: compared_runs(operator, first, second, measure=by, limit=ROWS))
    except NoSuchRun as error:
        raise NotThere(f"{error}.") from None


def _totals(found: Comparison) -> list[tuple[Any, ...]]:
    """Return a row for each figure: its name, and count and rate an hour of either, None where nothing is known."""
    left, right = found.totals
    rows = ((name, left.get(name), right.get(name)) for name in FIGURES)
    return [
        (name, *(one.count if one else None for one in both), *(one.per_hour if one else None for one in both))
        for name, *both in rows
        if any(one and one.count for one in both)
    ]


def _row(job: ConsoleJob, row: ComparedQueue, shown: Sequence[str], by: str) -> tuple[Any, ...]:
    amounts = [(measure, row.amount(0, measure), row.amount(1, measure)) for measure in shown]
    return row.queue, job.base + key_path(row.queue) if row.first else "", amounts, row.difference(by)
