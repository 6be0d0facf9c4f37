"""Errors: what failed for good, the kinds of errors over the whole crawl, which queues fail most, and refusals."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.operators import Selection
from budgetfrontier.reports.totals import by_outcome, refusals
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import of_scan
from budgetfrontier.tools.console.pages.dead_letters import counted_reasons
from budgetfrontier.tools.console.pages.statuses import answers_of, ranked_kinds
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path, link_to

TOP = 12
_COLORS = {"SUCCESS": "s-in-process", "FAILURE": "s-retired", "RETRY": "s-inactive", "DEAD": "s-snoozed"}


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the errors of a crawl."""
    totals, dead = job.sample_now().totals, counted_reasons(job)
    outcomes, answers = list(by_outcome(totals)), answers_of(job)
    return {
        "totals": totals,
        "colors": _COLORS,
        "outcomes": outcomes,
        "parts": [(one.name, _COLORS[one.name], one.attempts or 0) for one in outcomes if one.name in _COLORS],
        "refused": [(name, "", n) for name, n in refusals(totals)[:TOP]],
        "dead": [(name or "no reason", link_to(job.base, "/dead-letters", reason=name), n) for name, n in
                 dead.most_common(TOP)],
        "dead_read": dead.total(),
        "kinds": ranked_kinds(job, answers),
        "queues": [(queue.queue, job.base + key_path(queue.queue), queue.errors) for queue in _failing(job)],
    } | of_scan(job)  # fmt: skip


def _failing(job: ConsoleJob) -> list[QueueRecord]:
    """Return the queues with most errors."""
    if not job.is_folder:
        found = job.look(lambda one: [*one.sorted_queues(Selection(), sort="errors", reverse=True, end=TOP)])
        return [queue for queue, _ in found if queue.errors]
    if (scanned := job.scanned()) is None:
        return []
    with job.view() as view:
        ids, _ = scanned.columns.page("errors", text="", start=0, limit=TOP)
        return [queue for queue in queues_by_id(view, ids) if queue.errors]
