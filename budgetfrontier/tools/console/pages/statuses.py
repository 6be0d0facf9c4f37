"""Statuses: the answers of hosts by class, over time and in sum, the hosts that answer with errors, and their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.reports.operators import Selection
from budgetfrontier.reports.over_time import SPANS
from budgetfrontier.reports.status_tables import CHOICES, CLASSES, COLORS, Statuses, row_of
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.log_files import CRAWL_LOG
from budgetfrontier.tools.console.pages import of_scan
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path, link_to

ROWS, KINDS = 50, 20


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the answers of a crawl; the hosts are those with most of one class, or of all errors."""
    totals, status = job.sample_now().totals, query.choice("status", CHOICES)
    curves = job.over_time.curves(query.choice("span", SPANS), ANSWERS)
    found = answers_of(job, status)
    return {
        "classes": parts_of([getattr(totals, name) for name in ANSWERS]),
        "curves": curves,
        "spans": list(SPANS),
        "layers": [
            (CLASSES[at], COLORS[CLASSES[at]], curve.points)
            for at, curve in enumerate(curves.figures)
            if any(curve.points)
        ],
        "unreported": found.unreported if found else 0,
        "status": status,
        "choices": [(one, _named(one) if one else "all errors") for one in CHOICES],
        "rows": [
            (row, job.base + key_path(row.queue), parts_of(row.classes), row_of(row, for_people=True))
            for row in (found.rows[:ROWS] if found else ())
        ],
        "kinds": ranked_kinds(job, found),
    } | of_scan(job)  # fmt: skip


def parts_of(classes: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return each class that was answered, with its color and its number."""
    return [(_named(name), COLORS[name], count) for name, count in zip(CLASSES, classes, strict=True) if count]


def _named(name: str) -> str:
    return "no answer" if name == "none" else name


def answers_of(job: ConsoleJob, status: str = "") -> Statuses | None:
    """Return the answers of all queues, of a job as of its latest scan; None if there is none yet."""
    if job.is_folder:
        scanned = job.scanned()
        return scanned.scan.answers[status] if scanned else None
    return job.look(lambda operator: operator.statuses(Selection(), status=status, limit=ROWS))


def ranked_kinds(job: ConsoleJob, found: Statuses | None) -> list[tuple[str, str, int]]:
    """Return the most frequent kinds of errors; those that are a status lead to the lines of the log."""
    return [(one.kind, _lines(job, one.kind), one.attempts) for one in (found.kinds[:KINDS] if found else ())]


def _lines(job: ConsoleJob, kind: str) -> str:
    name, _, status = kind.partition(" ")
    if not job.is_folder or name != "status":
        return ""
    return link_to(job.base, "/logs", file=CRAWL_LOG, q=f" {status} ")
