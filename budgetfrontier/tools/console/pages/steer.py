"""The forms that change the crawl or many queues; those for one thing are on its page."""

from __future__ import annotations

from typing import Any

from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the values that the forms show besides their fields."""
    keeps_urls = job.look(lambda operator: operator.settings.frontier.keep_urls)
    return {"totals": job.sample_now().totals, "keeps_urls": keeps_urls}
