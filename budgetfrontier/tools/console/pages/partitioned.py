"""The pages of a crawl in partitions: its overview with the partitions, its queues, and the table of all its pages."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.reports.operators import CrawlOperator, Selection
from budgetfrontier.reports.over_time import SPANS
from budgetfrontier.reports.totals import tiles
from budgetfrontier.reports.wrong_now import wrong_now
from budgetfrontier.rules.verdict import process_line, standstill
from budgetfrontier.tools.console.columns import SORTS
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import (
    ConsolePage,
    adjustments,
    alerts,
    audit,
    compare,
    crawl_settings,
    dead_letters,
    errors,
    from_row,
    groups,
    leases,
    queue,
    rates,
    retired,
    runs,
    seeds,
    simulation_form,
    statuses,
    steer,
    traps,
)
from budgetfrontier.tools.console.pages.overview import (
    LAST_MINUTE,
    TOP,
    big_figures,
    foreseen,
    judgement,
    rankings,
)
from budgetfrontier.tools.console.pages.queues import CHOICES, COLUMNS, counts_of
from budgetfrontier.tools.console.partitioned_job import PartitionedJob
from budgetfrontier.tools.console.query import Query

FARTHEST = 4000
"""Rows before a page, at the most: all before it are sent by each owner."""


def overview(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the values of the overview."""
    assert isinstance(job, PartitionedJob)
    current, whole = job.current(), job.whole()
    curves = job.over_time.curves(query.choice("span", SPANS))
    of_hour = current.happened.rates.get("fetched")
    rate, when = (None if of_hour is None else of_hour.per_hour / 3600), "in the last hour"
    spend = whole.overview.spend()
    report = current.report
    if report.standing.rate is not None:
        rate, when = report.standing.rate, LAST_MINUTE
    return (
        judgement(report.verdict, wrong_now(None, report.standing, spend, alerts=job.alert_files), job.base)
        | foreseen(whole.forecasts, standstill(report.standing), whole.when)
        | {
            "process": process_line(report.standing),
            "totals": report.totals,
            "tiles": tiles(report.totals),
            "big": big_figures(report.totals, curves, rate, when),
            "curves": curves,
            "spans": list(SPANS),
            "partitions": current.partitions,
            "told": current.when,
            "missing": current.missing.rest if report.state is CrawlState.UNKNOWN else current.missing.told(),
            "are_missing": bool(current.missing.numbers),
            "scanned": whole.when,
            "spend": spend,
            "rankings": rankings(job, spend.top, whole.overview.longest(TOP), spend.stranding),
        }
    )


def queues(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of queues, of which each owner sends its first ones."""
    chosen = query.choice("state", CHOICES)
    match, start = query.match("q"), query.number("start", 0, most=FARTHEST)
    sort = query.choice("sort", ("queue", *SORTS), "queued")
    reverse = query.flag("reverse")
    selection, end = Selection([*CHOICES[chosen]] if chosen else None, match or None), start + query.rows + 1

    def read(operator: CrawlOperator) -> list[QueueRecord]:
        found = operator.sorted_queues(selection, sort=sort, reverse=(sort != "queue") is not reverse, end=end)
        return [queue for queue, _ in found]

    rows = job.look(read)
    more = len(rows) == end and start + query.rows <= FARTHEST
    totals = job.sample_now().totals
    return {
        "rows": rows[start : start + query.rows], "columns": COLUMNS,
        "state": chosen,
        "states": list(QueueState), "q": match, "sort": sort, "sorts": ("queue", *SORTS), "by_amount": True,
        "start": start, "reverse": reverse, **from_row(query, start, more=more), "waits": False, "cut": False,
        "as_of": None, "left_state": 0, "scan_progress": None, "scan_error": "", "is_glob": True,
        "pattern": match or "*", **counts_of(totals, chosen),
    }  # fmt: skip


PAGES = (
    ConsolePage("", "Overview", "partitioned.html", overview, every=5.0),
    ConsolePage("/queues", "Queues", "queues.html", queues),
    ConsolePage(r"/queue/{target:[\s\S]+}", "Queue", "queue.html", queue.build, listed=False),
    ConsolePage("/queue", "Queue", "queue.html", queue.build, listed=False),
    ConsolePage("/rates", "Rates", "rates.html", rates.build),
    ConsolePage("/groups", "Groups", "groups.html", groups.build),
    ConsolePage("/leases", "Leases", "leases.html", leases.build),
    ConsolePage("/runs", "Runs", "runs.html", runs.build),
    ConsolePage("/compare", "Compare", "compare.html", compare.build),
    ConsolePage("/seeds", "Seeds", "seeds.html", seeds.build),
    ConsolePage("/settings", "Settings", "settings.html", crawl_settings.build),
    ConsolePage("/retired", "Retired", "retired.html", retired.build, group="problems"),
    ConsolePage("/alerts", "Alerts", "alerts.html", alerts.build, every=5.0, group="problems"),
    ConsolePage("/traps", "Traps", "traps.html", traps.build, group="problems"),
    ConsolePage("/errors", "Errors", "errors.html", errors.build, group="problems"),
    ConsolePage("/statuses", "Statuses", "statuses.html", statuses.build, group="problems"),
    ConsolePage("/dead-letters", "Dead letters", "dead_letters.html", dead_letters.build, group="problems"),
    ConsolePage("/steer", "Steer", "steer.html", steer.build, group="change", steers=True),
    ConsolePage("/simulate", "Simulate", "simulate.html", simulation_form.build, group="change", steers=True),
    ConsolePage("/adjustments", "Adjustments", "adjustments.html", adjustments.build, group="change"),
    ConsolePage("/audit", "Audit", "audit.html", audit.build, group="change"),
)
"""The pages of a crawl in partitions, in the order of the navigation."""
