"""Commands that reports suggest to the operator."""

from __future__ import annotations

import shlex

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.core.vocabulary import OF_GROUP
from budgetfrontier.rules.budgets import has_completed, is_over_total
from budgetfrontier.settings import plugins
from budgetfrontier.settings.matching import GROUP, queue_match
from budgetfrontier.settings.overrides import Limits
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage.holds import Holds
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


def raised_budget(queue: QueueRecord, of_crawl: int) -> int:
    """Return the total budget that gives a queue one more session; `of_crawl` is the crawl's replenish amount."""
    amount = replenish_amount(queue.balance_replenish_amount, of_crawl)
    return queue.expenditure + one_more_session(amount, queue.total_budget)


def group_arguments(group: str, *, total_budget: int) -> list[str]:
    """Return the arguments of `adjust` that give a group of queues another total budget."""
    return ["--match", f"{GROUP}{group}", "--set", f"group.total_budget={total_budget}"]


def raised_quota(use: QuotaUse, quota: Limits) -> list[str]:
    """Return the arguments of `adjust` that raise a quota by as much again as the limit that is reached."""
    raised = {**dict(quota), use.amount: use.used + max(use.limit, 1)}
    value = ", ".join(f"{amount}: {limit}" for amount, limit in raised.items())
    setting = "group.quotas" if use.kind == OF_GROUP else f"quotas.{use.kind}"
    match = queue_match(use.name) if use.kind == "queue" else f"{use.kind}:{use.name}"
    return ["--match", match, "--set", f"{setting}={{{value}}}"]


def lifting_precedence(queue: QueueRecord, url: str, own: int, frontier: FrontierSettings) -> int | None:
    """Return the setting `precedence` that brings an INELIGIBLE queue right before the floor; None if none does.

    `url` is its next one, and `own` the setting in force for that. A policy that is not built in may do anything.
    """
    floor = frontier.precedence_floor or 0
    if not plugins.is_builtin("precedence", frontier.precedence_policy):
        return None
    policy = plugins.resolve("precedence", frontier.precedence_policy)
    if policy(CrawlUri(url), precedence=floor) != floor:  # it has a base of its own
        return None
    added = queue.precedence - own if hasattr(policy, "of_queue") else 0
    return floor - 1 - added if floor - 1 - added >= 0 else None


def revival_commands(
    queue: QueueRecord, job: str, *, replenish: int, reached: bool, held: Holds | None = None
) -> list[str]:
    """Return the commands that revive a RETIRED queue for one more session: it needs all of them.

    `replenish` is the crawl's amount; `reached`: the queue is over its total budget as soon as that is spent. `held` is
    what holds it besides its own budget.
    """
    more = replenish_amount(queue.balance_replenish_amount, replenish)
    options, found = list[str](), list[list[str]]()
    if is_over_total(queue.expenditure, queue.total_budget, reached):
        options += ["--total-budget", str(queue.expenditure + one_more_session(more, queue.total_budget))]
    if queue.balance_replenish_amount <= 0:
        options += ["--replenish", str(more)]
    if options:
        found.append(["adjust", job, "--match", queue_match(queue.queue), *options])
    if held is not None and held.group is not None:
        total = held.group.expenditure + one_more_session(more, held.group.total_budget)
        found.append(["adjust", job, *group_arguments(held.group.name, total_budget=total)])
    for use, quota in () if held is None else held.quotas:
        found.append(["adjust", job, *raised_quota(use, quota)])
    if has_completed(queue):
        found.append(["set-queue", job, "--limit", "0", *named(queue)])
    if queue.by_name or not found:
        found.append(["unretire", job, *named(queue)])
    return [shlex.join(("budgetfrontier", *words)) for words in found]
