"""The pages of a crawl in partitions that show and change one thing: a queue, the adjustments, the audit, the crawl."""

from __future__ import annotations

from typing import Any

from budgetfrontier.cluster.inspection import Audited, FoundQueue, InForce
from budgetfrontier.cluster.merging import merged_adjustments, merged_audit
from budgetfrontier.cluster.operator_client import Operator
from budgetfrontier.reports.explanation import Explanation
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.path_patterns import path_patterns
from budgetfrontier.settings.overrides import Effective, Override
from budgetfrontier.tools.console.cluster_job import ClusterJob, named_entry, newest_commands
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.adjustments import ROWS
from budgetfrontier.tools.console.pages.queue import HEAD, sources, with_terms
from budgetfrontier.tools.console.query import NotThere, Query

_READ = 1000  # entries of the audit of each partition
_HISTORY = 50


def queue(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return what the owner of a queue tells of it. Raises NotThere."""
    assert isinstance(job, ClusterJob)
    asked = query.target or query.text("key")

    def look(operator: Operator) -> dict[str, Any]:
        key = asked
        number = operator.partition_of_queue(key)
        found: FoundQueue = operator.ask_one(number, "queue", FoundQueue, key=key, limit=HEAD, spread=False)
        if found.queue is None:
            meant = f"; did you mean {clean(found.meant)}?" if found.meant else "."
            raise NotThere(f"There is no queue {clean(key[:300])!a}{meant}")
        key = found.queue.queue
        sample: FoundQueue = operator.ask_one(number, "queue", FoundQueue, key=key, limit=_READ, spread=True)
        explanation: Explanation = operator.ask_one(number, "explain", Explanation, target=key, job=operator.job)
        settings = operator.settings
        in_force = operator.ask_one(number, "adjustments", list[InForce])
        adjustments = [Override(one.match, one.set) for one in in_force]
        url = found.pending[0].uri.url if found.pending else found.queue.last_enqueued
        effective = Effective(settings.frontier, [*settings.overrides, *adjustments])
        values = effective.for_uri(url or "http://none.invalid/", key)
        rows = merged_audit({number: operator.ask_one(number, "audit", list[Audited], count=_HISTORY, key=key)})
        return {
            "title": f"Queue {clean(key[:80])}",
            "queue": found.queue,
            "explanation": explanation,
            "settings": sources(values, settings.overrides, adjustments, url, key),
            "head": [with_terms(item, values) for item in found.pending],
            "spread": [],
            "patterns": path_patterns(item.uri.url for item in sample.pending),
            "sampled": len(sample.pending),
            "history": [(named_entry(row), row.covers) for row in rows[::-1]],
        }

    return job.ask(look)[0]


def adjustments(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of the adjustments in force in any partition, by their names."""
    assert isinstance(job, ClusterJob)
    start = query.number("start", 0, most=10_000_000)

    def look(operator: Operator) -> tuple[Any, Any]:
        return merged_adjustments(operator.ask("adjustments", list[InForce])), operator.settings.overrides

    (found, overrides), missing = job.ask(look)
    rows = [({"id": name, "match": one.match, "set": one.set}, one.entry) for name, one in found[start : start + ROWS]]
    return {
        "rows": rows, "count": len(found), "overrides": overrides[:ROWS], "overrides_count": len(overrides),
        "next": {"start": start + ROWS} if len(found) > start + ROWS else None,
        "first": {"start": max(start - ROWS, 0) or None} if start else None, "missing": missing,
    }  # fmt: skip


def audit(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the newest commands, those that match, or one in full."""
    assert isinstance(job, ClusterJob)
    only, command, who, text = (query.text(name) for name in ("id", "command", "who", "q"))
    rows, missing = job.ask(lambda operator: newest_commands(operator, _READ))
    if only:
        rows = [row for row in rows if row.id == only]
        if not rows:
            raise NotThere(f"There is no command {clean(only[:40])!a} among the newest.")
    rows = [
        row
        for row in rows
        if command in ("", row.entry.command)
        and who in ("", row.entry.who)
        and text in f"{row.entry.reason} {row.entry.args} {row.entry.effect} {row.entry.error}"
    ][:ROWS]
    return {
        "rows": [named_entry(row) for row in rows],
        "undoable": {row.id for row in rows if row.inverse},
        "places": {row.id: row.partitions for row in rows},
        "only": only, "command": command, "who": who, "q": text, "next": None, "first": None,
        "in_progress": missing and f"{missing[:1].upper()}{missing[1:]}.",
    }  # fmt: skip


def steer(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return what the forms show besides their fields."""
    assert isinstance(job, ClusterJob)
    return {"totals": job.current().report.totals, "for_good_only": True}
