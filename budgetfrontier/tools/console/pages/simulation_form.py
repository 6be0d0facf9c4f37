"""The form of a simulation: how the crawl goes on, and how it would with other settings."""

from __future__ import annotations

from typing import Any

from budgetfrontier.rules.simulation import DRAWS, MOST_DRAWS, MOST_FETCHES
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the values of the form that are usual, or why there can be no simulation."""
    totals = job.sample_now().totals
    return {
        "totals": totals,
        "why_not": as_sentence(job.why_no_simulation),
        "match": query.match("match"),
        "max_fetches": MOST_FETCHES,
        "draws": DRAWS,
        "most_draws": MOST_DRAWS,
    }
