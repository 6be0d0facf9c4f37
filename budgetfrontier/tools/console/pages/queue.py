"""One queue: its money, why it is or is not crawled, its settings and their sources, its URIs, its history."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from budgetfrontier.reports.audit_filter import coverage
from budgetfrontier.reports.cost_terms import cost_terms
from budgetfrontier.reports.explain import explain
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.near_queues import did_you_mean
from budgetfrontier.reports.path_patterns import path_patterns
from budgetfrontier.reports.queue_sample import FOR_PATTERNS, spread
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.overrides import Effective, Override, QueueSettings, value_in
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import PendingUri, View
from budgetfrontier.tools.console.changes_since import MATCHED
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotThere, Query

HEAD = SPREAD = 50
"""URIs that are shown of the head of a queue, and spread over the whole."""
_COMMANDS = 5000  # of the audit, that are looked through


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return what is known of a queue. Raises NotThere, with the nearest keys that there are."""
    key = query.target or query.text("key")
    with job.view() as view:
        key = view.named(key)
        stored = view.find_queue(key)
        if stored is None:
            raise NotThere(f"There is no queue {clean(key[:300])!a}{did_you_mean(view, key) or '.'}")
        queue = BudgetsInForce(view).show(stored)
        out = frozenset(view.leased_keys()) if queue.out else frozenset()
        head = list(view.pending(queue, HEAD, out))
        sample = spread(view, queue, FOR_PATTERNS)
        url = head[0].uri.url if head else queue.last_enqueued
        settings, adjustments = view.settings()[0], view.adjustments()
        history = _history(view, key)
    overrides = [*settings.overrides, *adjustments]
    in_force = Effective(settings.frontier, overrides).for_uri(url or "http://none.invalid/", key)
    step = max(len(sample) // SPREAD, 1)
    return {
        "title": f"Queue {clean(key[:80])}",
        "queue": queue,
        "explanation": explain(job.reader, key, job=str(job.folder)),
        "settings": sources(in_force, settings.overrides, adjustments, url, key),
        "head": [with_terms(item, in_force) for item in head],
        "spread": [with_terms(item, in_force) for item in sample[::step][:SPREAD]] if queue.queued > HEAD else [],
        "patterns": path_patterns(item.uri.url for item in sample),
        "sampled": len(sample),
        "history": history,
    }


def with_terms(item: PendingUri, settings: QueueSettings) -> dict[str, Any]:
    """Return a URI with the terms of its cost: none if the policy does not tell, or asks another cost now."""
    terms = cost_terms(settings.cost_policy, item.uri)
    known = terms is not None and sum(term.amount for term in terms) == item.cost
    return {"item": item, "terms": terms if terms is not None and known else [], "now": terms is None or known}


def sources(
    in_force: QueueSettings, overrides: Iterable[Override], adjustments: Iterable[Override], url: str, key: str
) -> list[dict[str, Any]]:
    """Return each setting with its value and what has set it, those that an override has set first."""
    source: dict[str, str] = {}
    for kind, ones in (("override", overrides), ("adjustment", adjustments)):
        for number, one in enumerate(ones, 1):
            if parse_match(one.match).matches(url, key):
                source |= dict.fromkeys(one.set, f"{kind} {one.id or number}: {one.match}")
    rows = [
        {"name": name, "value": str(value_in(in_force, name)), "source": source.get(name, "")} for name in per_uri()
    ]
    return sorted(rows, key=lambda row: not row["source"])


def _history(view: View, key: str) -> list[tuple[AuditEntry, str]]:
    """Return the last commands that concern this queue, newest first, and how: as `audit --queue` tells it."""
    covers = coverage(view, key, looked_at=MATCHED)
    found = ((entry, covers(entry)) for entry in islice(view.newest_commands(), _COMMANDS))
    return [*islice(((entry, how) for entry, how in found if how), 50)]
