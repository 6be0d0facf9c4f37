"""The reason why a frontier hands out nothing, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.model import CrawlState, QueueState
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.reports.overview import Overview
from budgetfrontier.rules.crawl_states import FINISH
from budgetfrontier.units import format_duration

if TYPE_CHECKING:
    from budgetfrontier.store.report import Report


def idle_reason(report: Report, overview: Overview, *, now: float) -> str | None:
    """Return why nothing is being leased, in one sentence; None if something is, or could be."""
    totals, counts = report.totals, report.totals.queues
    if report.state is CrawlState.TERMINATED:
        return "the crawl was terminated, for good"
    if report.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        if report.pause_reason == FINISH:
            more = "raise a budget with `adjust`, or add seeds, then run the same `crawl` command"
            return f"the budgets allow no more: {more}"
        return f"the crawl is paused ({clean(report.pause_reason or 'no reason given')}); `resume` goes on"
    if report.state is CrawlState.NEW:
        return "nothing was ever scheduled"
    if counts.get(QueueState.READY, 0) or counts.get(QueueState.IN_PROCESS, 0):
        return None
    if counts.get(QueueState.SNOOZED, 0):
        wake = now if overview.next_wake is None else overview.next_wake
        return f"all active queues are snoozed; the next one wakes in {format_duration(wake - now)}"
    if counts.get(QueueState.INACTIVE, 0):
        return "inactive queues are activated as soon as a worker asks for a URI, and none is asking"
    if totals.future:
        return f"all that is left is scheduled for later ({counted(totals.future, 'URI')})"
    if counts.get(QueueState.RETIRED, 0):
        return "only retired queues are left; `adjust` a budget to revive them"
    return "nothing is queued"
