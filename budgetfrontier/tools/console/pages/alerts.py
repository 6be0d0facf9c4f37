"""The alerts: which conditions hold, since when, and which sinks were told."""

from __future__ import annotations

import shlex
from typing import Any

from budgetfrontier.reports import alert_state
from budgetfrontier.reports.alert_state import AlertFiles, AlertState
from budgetfrontier.settings.alert_sinks import name_of
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the alerts that are raised, and the newest deliveries."""
    files = AlertFiles.of_job(job.folder)
    state, settings = alert_state.read(files), job.reader.settings.alerts
    found = state or AlertState()
    return {
        "raised": [(name, about, found.sent(name)) for name, about in found.raised.items()],
        "deliveries": found.deliveries[: -query.rows - 1 : -1],
        "looked": state.looked if state else 0.0,
        "damage": as_sentence(alert_state.damage(files) or ""),
        "sinks": [name_of(sink) for sink in settings.sinks],
        "command": shlex.join(("budgetfrontier", "alerts", str(job.folder))),
    }
