"""The pages of a crawl in partitions: its overview with the partitions, its queues, and those that change it."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.errors import SettingsError
from budgetfrontier.reports.totals import tiles
from budgetfrontier.reports.wrong_now import wrong_now
from budgetfrontier.rules.verdict import process_line
from budgetfrontier.settings.matching import queue_test
from budgetfrontier.tools.console.cluster_job import ClusterJob
from budgetfrontier.tools.console.columns import SORTS
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import ConsolePage, cluster_steering
from budgetfrontier.tools.console.pages.overview import TOP
from budgetfrontier.tools.console.pages.queues import COLUMNS, ROWS
from budgetfrontier.tools.console.query import BadRequest, Query
from budgetfrontier.tools.console.rendering import key_path

FARTHEST = 4000
"""Rows before a page, at the most: all before it are sent by each owner."""


def overview(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return what the overview shows."""
    assert isinstance(job, ClusterJob)
    current, whole = job.current(), job.whole()
    spend = whole.overview.spend()
    report = current.report
    wrong = [_sentence(current.missing)] if current.missing else []
    wrong += wrong_now(None, report.totals, spend)
    return {
        "verdict": report.verdict,
        "process": process_line(report.standing),
        "totals": report.totals,
        "tiles": tiles(report.totals),
        "partitions": current.partitions,
        "told": current.when,
        "wrong": wrong,
        "scanned": whole.when,
        "spend": spend,
        "top": _ranked(spend.top, "expenditure"),
        "longest": _ranked(whole.overview.longest(TOP), "queued"),
        "stranding": _ranked(spend.stranding, "queued"),
    }


def queues(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of queues."""
    assert isinstance(job, ClusterJob)
    state = QueueState(found) if (found := query.choice("state", list(QueueState))) else None
    match, start = _match(query), query.number("start", 0, most=FARTHEST)
    sort = query.choice("sort", ("queue", *SORTS), "queued")
    reverse = query.flag("reverse")
    rows, missing = job.queues(
        state, match or None, sort=sort, reverse=(sort != "queue") is not reverse, count=start + ROWS + 1
    )
    more = len(rows) > start + ROWS and start + ROWS <= FARTHEST
    totals = job.current().report.totals
    return {
        "rows": rows[start : start + ROWS], "missing": _sentence(missing), "columns": COLUMNS, "state": state or "",
        "states": list(QueueState), "q": match, "sort": sort, "sorts": ("queue", *SORTS), "start": start,
        "reverse": reverse, "next": {"start": start + ROWS} if more else None,
        "first": {"start": max(start - ROWS, 0) or None} if start else None,
        "count": totals.queues.get(state, 0) if state else sum(totals.queues.values()),
    }  # fmt: skip


def _match(query: Query) -> str:
    """Return the pattern that is asked for. Raises BadRequest."""
    match = query.text("q")
    try:
        queue_test(match or None)
    except SettingsError as error:
        raise BadRequest(f"q: {error}") from None
    return match


def _sentence(text: str) -> str:
    return text and f"{text[:1].upper()}{text[1:]}."


def _ranked(found: list[QueueRecord], amount: str) -> list[tuple[str, str, int]]:
    return [(queue.queue, key_path(queue.queue), getattr(queue, amount)) for queue in found[:TOP]]


PAGES = (
    ConsolePage("", "Overview", "cluster_overview.html", overview, every=5.0),
    ConsolePage("/queues", "Queues", "cluster_queues.html", queues),
    ConsolePage(r"/queue/{target:[\s\S]+}", "Queue", "queue.html", cluster_steering.queue, listed=False),
    ConsolePage("/queue", "Queue", "queue.html", cluster_steering.queue, listed=False),
    ConsolePage("/adjustments", "Adjustments", "adjustments.html", cluster_steering.adjustments),
    ConsolePage("/steer", "Steer", "steer.html", cluster_steering.steer, steers=True),
    ConsolePage("/audit", "Audit", "audit.html", cluster_steering.audit),
)
"""The pages of a crawl in partitions, in the order of the navigation."""
