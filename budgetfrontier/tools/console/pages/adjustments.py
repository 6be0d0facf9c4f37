"""The adjustments in force, in the order in which they apply, with who made each and why."""

from __future__ import annotations

from typing import Any

from budgetfrontier.settings import sheets
from budgetfrontier.settings.overrides import Override
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import from_row
from budgetfrontier.tools.console.query import Query


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of adjustments; the later ones win."""
    start = query.number("start", 0, most=10_000_000)
    found, settings = job.look(lambda operator: (operator.adjustments(), operator.settings))
    changes = [Override(one.match, one.set) for one in found]
    associations, values = sheets.associations_in_force(settings, changes), sheets.sheets_in_force(settings, changes)
    return {
        "rows": [(one, one.entry) for one in found[start : start + query.rows]],
        "count": len(found),
        "associations": [(one, values.get(one.sheet, {})) for one in associations[: query.rows]],
        "associations_count": len(associations),
        "overrides": settings.overrides[: query.rows],
        "overrides_count": len(settings.overrides),
        **from_row(query, start, more=len(found) > start + query.rows),
    }
