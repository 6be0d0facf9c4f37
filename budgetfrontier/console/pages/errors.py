"""Errors by reason: what failed for good, which queues fail most, and what the crawl log said last."""

from __future__ import annotations

from collections import Counter
from typing import Any

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.log_files import before
from budgetfrontier.console.pages.dead_letters import counted_reasons
from budgetfrontier.console.query import Query
from budgetfrontier.console.rendering import key_path, link_to
from budgetfrontier.reports.log_tables import meaning
from budgetfrontier.reports.totals import by_outcome, refusals
from budgetfrontier.store.queue_listing import queues_by_id

LOG = "crawl.log"
TOP = 20
_REASONS = 12  # fields of a line; the last has the reason


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return the errors of a job."""
    totals, scanned = job.sample_now().totals, job.scanned()
    queues = []
    with job.view() as view:
        dead = counted_reasons(view)
        if scanned is not None:
            ids, _ = scanned.columns.page("errors", state=None, text="", start=0, limit=TOP)
            queues = [queue for queue in queues_by_id(view, ids) if queue.errors]
    lines, failed, statuses = _recent(job)
    return {
        "totals": totals,
        "outcomes": list(by_outcome(totals)),
        "refused": [(name, "", n) for name, n in refusals(totals)[:TOP]],
        "dead": [(name or "no reason", link_to(job.base, "/dead-letters", reason=name), n) for name, n in
                 dead.most_common(TOP)],
        "dead_read": dead.total(),
        "queues": [(queue.queue, job.base + key_path(queue.queue), queue.errors) for queue in queues],
        "as_of": scanned.when if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
        "lines": lines,
        "failed": [(name, link_to(job.base, "/logs", file=LOG, q=name), n) for name, n in failed.most_common(TOP)],
        "statuses": [(name, "", n) for name, n in statuses.most_common(TOP)],
    }  # fmt: skip


def _recent(job: Job) -> tuple[int, Counter[str], Counter[str]]:
    """Return how many lines of the end of the crawl log were read, and the reasons and statuses of failures in them."""
    failed: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    try:
        lines = before(job.folder / "logs", LOG, None).lines
    except OSError:
        return 0, failed, statuses
    for line in lines:
        fields = line.split()
        if len(fields) != _REASONS or not fields[1].lstrip("-").isdigit():
            continue
        status = int(fields[1])
        if status < 200 or status >= 400:
            statuses[f"{status} {meaning(status)}".strip()] += 1
        if status <= 0:
            failed[_reason(fields[-1])] += 1
    return len(lines), failed, statuses


def _reason(annotations: str) -> str:
    """Return the reason of a failure: what follows the number of tries, and comes before its seed."""
    tries, comma, rest = annotations.partition(",")
    known = rest if comma and tries[:-1].isdigit() and tries[-1:] == "t" else annotations
    return known.partition(",seed:")[0]
