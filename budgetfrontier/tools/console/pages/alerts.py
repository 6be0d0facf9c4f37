"""The alerts: which conditions hold, since when, and which sinks were told."""

from __future__ import annotations

import shlex
from typing import Any

from budgetfrontier.reports import alert_state
from budgetfrontier.reports.alert_state import AlertState, StoredAlerts
from budgetfrontier.settings.alert_sinks import name_of
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence

UNKNOWN = (
    "A crawl in partitions has no folder for its alerts: give the console --config FILE, the configuration of its "
    "workers, and --state FILE, where `alerts --watch` keeps them."
)


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the alerts that are raised, and the newest deliveries."""
    files, settings = job.alert_files, job.alert_settings
    state, problem, _ = StoredAlerts() if files is None else alert_state.read(files)
    found = state or AlertState()
    own = [] if files is None or job.is_folder else ["--state", str(files.state), "--config", "FILE"]
    return {
        "unknown": UNKNOWN if files is None else "",
        "raised": [(name, about, found.sent(name)) for name, about in found.raised.items()],
        "deliveries": found.deliveries[: -query.rows - 1 : -1],
        "looked": state.looked if state else 0.0,
        "damage": as_sentence(problem),
        "sinks": settings and [name_of(sink) for sink in settings.sinks],
        "command": shlex.join(("budgetfrontier", "alerts", *job.words, *own)),
    }
