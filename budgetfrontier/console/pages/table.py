"""The table of all pages, in the order of the navigation."""

from __future__ import annotations

from budgetfrontier.console.pages import Page, overview, queue, queues

PAGES = (
    Page("", "Overview", "overview.html", overview.build, every=1.0),
    Page("/queues", "Queues", "queues.html", queues.build, every=5.0),
    Page("/queue/{target:.+}", "Queue", "queue.html", queue.build, every=5.0, listed=False),
    Page("/queue", "Queue", "queue.html", queue.build, every=5.0, listed=False),
)
