"""Commands that reports suggest to the operator."""

from __future__ import annotations

import shlex

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.rules.budgets import has_completed, is_over_total
from budgetfrontier.settings.matching import GROUP
from budgetfrontier.settings.overrides import Limits
from budgetfrontier.storage.quota_use import QuotaUse


def replenish_amount(own: int, of_crawl: int) -> int:
    """Return the amount that a queue gets at its activation: its own, or the crawl's if it has none."""
    return own if own > 0 else max(of_crawl, 1)


def named(queue: QueueRecord) -> list[str]:
    """Return the last words of a command on a queue: a host name may begin with a hyphen, like an option."""
    return ["--", queue.queue] if queue.queue.startswith("-") else [queue.queue]


def one_more_session(amount: int, total_budget: int) -> int:
    """Return by how much a total budget is raised for one more session of an amount: doubled at the most.

    >>> one_more_session(3000, -1), one_more_session(3000, 3), one_more_session(20, 100), one_more_session(20, 0)
    (3000, 3, 20, 20)
    """
    return min(amount, total_budget) if total_budget > 0 else amount


def group_arguments(group: str, *, total_budget: int) -> list[str]:
    """Return the arguments of `adjust` that give a group of queues another total budget."""
    return ["--match", f"{GROUP}{group}", "--set", f"group.total_budget={total_budget}"]


def raised_quota(use: QuotaUse, quota: Limits) -> list[str]:
    """Return the arguments of `adjust` that raise a quota by as much again as the limit that is reached."""
    raised = {**dict(quota), use.amount: use.used + max(use.limit, 1)}
    value = ", ".join(f"{amount}: {limit}" for amount, limit in raised.items())
    setting = "group.quotas" if use.kind == OF_GROUP else f"quotas.{use.kind}"
    return ["--match", f"{use.kind}:{use.name}", "--set", f"{setting}={{{value}}}"]


def revival_command(
    queue: QueueRecord, job: str, *, replenish: int, reached: bool, quota: tuple[QuotaUse, Limits] | None = None
) -> str:
    """Return the command that revives a RETIRED queue for one more session; "" if its limit of completed URLs holds it.

    `replenish` is the crawl's amount; `reached`: the queue is over its total budget as soon as that is spent. `quota`
    is the one that holds it.
    """
    if quota is not None and not queue.by_name:
        return shlex.join(("budgetfrontier", "adjust", job, *raised_quota(*quota)))
    if has_completed(queue) and not queue.by_name:
        return ""
    more = replenish_amount(queue.balance_replenish_amount, replenish)
    options = []
    if is_over_total(queue.expenditure, queue.total_budget, reached):
        options += ["--total-budget", str(queue.expenditure + one_more_session(more, queue.total_budget))]
    if queue.balance_replenish_amount <= 0:
        options += ["--replenish", str(more)]
    if queue.by_name or not options:
        return shlex.join(("budgetfrontier", "unretire", job, *named(queue)))
    return shlex.join(("budgetfrontier", "adjust", job, "--match", f"queue:{queue.queue}", *options))
