"""The groups of queues, the quotas, and the labels of seeds."""

from __future__ import annotations

from typing import Any

from budgetfrontier.reports.operators import NO_GROUPS
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import of_scan
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the fullest groups and quotas, of a job as of the latest scan, and what was fetched with each label."""
    context: dict[str, Any] = {"groups": None, "quotas": [], "no_groups": ""} | of_scan(job)
    if not job.is_folder:
        groups, quotas, labels = job.look(lambda one: (one.groups(query.rows), one.quotas(), one.labels()))
        context |= {"groups": groups, "quotas": quotas[: query.rows], "no_groups": as_sentence(NO_GROUPS)}
    else:
        labels = job.look(lambda operator: operator.labels())
        if (scanned := job.scanned()) is not None:
            context |= {"groups": scanned.scan.groups, "quotas": scanned.scan.quotas}
    return context | {"labels": labels[: query.rows], "labels_count": len(labels)}
