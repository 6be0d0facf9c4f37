"""Errors by reason: what failed for good, which queues fail most, and the statuses in the crawl log."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from budgetfrontier.reports import crawl_log
from budgetfrontier.reports.log_coverage import lacks_beginning
from budgetfrontier.reports.log_tables import meaning
from budgetfrontier.reports.totals import by_outcome, refusals
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.dead_letters import counted_reasons
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path, link_to
from budgetfrontier.tools.console.status_counts import LOG

TOP = 12
_COLORS = {"SUCCESS": "s-in-process", "FAILURE": "s-retired", "RETRY": "s-inactive", "DEAD": "s-snoozed"}


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the errors of a job."""
    totals, scanned = job.sample_now().totals, job.scanned()
    queues = []
    log, runs = job.folder / "logs" / LOG, job.reader.runs()
    begins = crawl_log.first_time(log) if log.is_file() else ""
    with job.view() as view:
        dead = counted_reasons(view)
        late = bool(begins) and lacks_beginning(view, runs, begins, None, time.time())
        if scanned is not None:
            ids, _ = scanned.columns.page("errors", state=None, text="", start=0, limit=TOP)
            queues = [queue for queue in queues_by_id(view, ids) if queue.errors]
    statuses, share = _statuses(job)
    outcomes = list(by_outcome(totals))
    return {
        "totals": totals,
        "colors": _COLORS,
        "outcomes": outcomes,
        "parts": [(one.name, _COLORS[one.name], one.attempts or 0) for one in outcomes if one.name in _COLORS],
        "refused": [(name, "", n) for name, n in refusals(totals)[:TOP]],
        "dead": [(name or "no reason", link_to(job.base, "/dead-letters", reason=name), n) for name, n in
                 dead.most_common(TOP)],
        "dead_read": dead.total(),
        "queues": [(queue.queue, job.base + key_path(queue.queue), queue.errors) for queue in queues],
        "as_of": scanned.when if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
        "share": share,
        "begins": begins if late else "",
        "statuses": [
            (f"{status} {meaning(status)}".strip(), link_to(job.base, "/logs", file=LOG, q=f" {status} "), n)
            for status, n in statuses.most_common(TOP)
        ],
    }  # fmt: skip


def _statuses(job: ConsoleJob) -> tuple[Counter[int], float]:
    """Return the counts of statuses other than success in the crawl log, and the share of it that was counted."""
    found, share = job.status_counts.counted(job.folder / "logs")
    return Counter({status: count for status, count in found.items() if not 200 <= status < 400}), share
