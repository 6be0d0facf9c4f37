"""The table of all pages, in the order of the navigation."""

from __future__ import annotations

from budgetfrontier.tools.console.pages import (
    Page,
    adjustments,
    audit,
    dead_letters,
    errors,
    leases,
    logs,
    overview,
    queue,
    queues,
    rates,
    reports,
    retired,
    seeds,
    steer,
)

PAGES = (
    Page("", "Overview", "overview.html", overview.build, every=1.0),
    Page("/queues", "Queues", "queues.html", queues.build, every=5.0),
    Page(r"/queue/{target:[\s\S]+}", "Queue", "queue.html", queue.build, every=5.0, listed=False),
    Page("/queue", "Queue", "queue.html", queue.build, every=5.0, listed=False),
    Page("/rates", "Rates", "rates.html", rates.build, every=30.0),
    Page("/retired", "Retired", "retired.html", retired.build, every=5.0),
    Page("/leases", "Leases", "leases.html", leases.build, every=2.0),
    Page("/errors", "Errors", "errors.html", errors.build, every=5.0),
    Page("/dead-letters", "Dead letters", "dead_letters.html", dead_letters.build, every=5.0),
    Page("/seeds", "Seeds", "seeds.html", seeds.build),
    Page("/reports", "Reports", "reports.html", reports.build),
    Page("/logs", "Logs", "logs.html", logs.build, every=2.0),
    Page("/adjustments", "Adjustments", "adjustments.html", adjustments.build, every=5.0),
    Page("/steer", "Steer", "steer.html", steer.build, steers=True),
    Page("/audit", "Audit", "audit.html", audit.build, every=5.0),
)
