"""The adjustments in force, in the order in which they apply, with who made each and why."""

from __future__ import annotations

from typing import Any

from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

ROWS = 100


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of adjustments; the later ones win."""
    start = query.number("start", 0, most=10_000_000)
    found, overrides, missing = job.look(
        lambda operator: (operator.adjustments(), operator.settings.overrides, operator.unanswered())
    )
    return {
        "rows": [(one, one.entry) for one in found[start : start + ROWS]],
        "count": len(found),
        "overrides": overrides[:ROWS],
        "overrides_count": len(overrides),
        "next": {"start": start + ROWS} if len(found) > start + ROWS else None,
        "first": {"start": max(start - ROWS, 0) or None} if start else None,
        "missing": missing,
    }
