"""The settings of the crawl, those first that differ from their defaults, without secrets."""

from __future__ import annotations

from typing import Any

from budgetfrontier.reports.settings_rows import SettingRow, hidden_note, settings_rows
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the settings, those with other values than their defaults apart."""
    found = settings_of(job, units=True)
    return {
        "changed": [row for row in found if row.changed],
        "usual": [row for row in found if not row.changed],
        "hidden": as_sentence(hidden_note(found)),
    }


def settings_of(job: ConsoleJob, *, units: bool = False) -> list[SettingRow]:
    """Return the settings of a job, with `units` as people write them."""
    return settings_rows(job.look(lambda operator: operator.settings), units=units)
