"""Commands that a report proposes to the operator."""

from __future__ import annotations

import shlex

from budgetfrontier.model import QueueRecord


def start_command(job: str) -> str:
    """Return the command that goes on with a crawl. The frontier does not know where its configuration is."""
    return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", job))


def replenish_amount(own: int, of_crawl: int) -> int:
    """Return what a queue gets at its activation: its own amount, or the crawl's where it has none."""
    return own if own > 0 else max(of_crawl, 1)


def revival_command(queue: QueueRecord, job: str, *, replenish: int) -> str:
    """Return the command that brings a RETIRED queue back for one session more; `replenish` is the crawl's amount."""
    more = replenish_amount(queue.balance_replenish_amount, replenish)
    options = []
    if 0 <= queue.total_budget <= queue.expenditure:
        options += ["--total-budget", str(queue.expenditure + more)]
    if queue.balance_replenish_amount <= 0:
        options += ["--replenish", str(more)]
    if queue.by_name or not options:
        dashes = ("--",) if queue.queue.startswith("-") else ()  # a host's name may begin so, and is no option
        return shlex.join(("budgetfrontier", "unretire", job, *dashes, queue.queue))
    return shlex.join(("budgetfrontier", "adjust", job, "--match", f"queue:{queue.queue}", *options))
