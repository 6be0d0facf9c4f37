"""The table of all pages, in the order of the navigation."""

from __future__ import annotations

from budgetfrontier.tools.console.pages import (
    ConsolePage,
    adjustments,
    audit,
    dead_letters,
    errors,
    groups,
    leases,
    logs,
    overview,
    queue,
    queues,
    rates,
    reports,
    retired,
    runs,
    seeds,
    statuses,
    steer,
    traps,
)

PAGES = (
    ConsolePage("", "Overview", "overview.html", overview.build, every=1.0),
    ConsolePage("/queues", "Queues", "queues.html", queues.build, every=5.0),
    ConsolePage(r"/queue/{target:[\s\S]+}", "Queue", "queue.html", queue.build, every=5.0, listed=False),
    ConsolePage("/queue", "Queue", "queue.html", queue.build, every=5.0, listed=False),
    ConsolePage("/rates", "Rates", "rates.html", rates.build, every=30.0),
    ConsolePage("/groups", "Groups", "groups.html", groups.build, every=5.0),
    ConsolePage("/leases", "Leases", "leases.html", leases.build, every=2.0),
    ConsolePage("/seeds", "Seeds", "seeds.html", seeds.build),
    ConsolePage("/runs", "Runs", "runs.html", runs.build, every=5.0),
    ConsolePage("/reports", "Reports", "reports.html", reports.build),
    ConsolePage("/logs", "Logs", "logs.html", logs.build, every=2.0),
    ConsolePage("/retired", "Retired", "retired.html", retired.build, every=5.0, group="problems"),
    ConsolePage("/traps", "Traps", "traps.html", traps.build, every=30.0, group="problems"),
    ConsolePage("/errors", "Errors", "errors.html", errors.build, every=5.0, group="problems"),
    ConsolePage("/statuses", "Statuses", "statuses.html", statuses.build, every=5.0, group="problems"),
    ConsolePage("/dead-letters", "Dead letters", "dead_letters.html", dead_letters.build, every=5.0, group="problems"),
    ConsolePage("/steer", "Steer", "steer.html", steer.build, group="change", steers=True),
    ConsolePage("/adjustments", "Adjustments", "adjustments.html", adjustments.build, every=5.0, group="change"),
    ConsolePage("/audit", "Audit", "audit.html", audit.build, every=5.0, group="change"),
)
