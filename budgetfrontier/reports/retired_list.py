"""The retired queues as a work list: why each is, the total budget that holds it, and the commands that revive it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState
from budgetfrontier.reports.suggested_commands import raised_budget, revival_commands
from budgetfrontier.rules.budgets import has_completed, is_over_total
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.holds import Holds, holds
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.storage.turn_order import in_turn
from budgetfrontier.storage.view import View

LOOKED_AT = 2000
"""INACTIVE queues, of those next in turn, that are asked whether they are over budget."""


class RetiredQueue(msgspec.Struct):
    """A queue with why it is retired, or will be; the total budget for one more session if that holds it; commands.

    There are neither budget nor commands in a crawl that was terminated: none has it hand out anything.
    """

    queue: QueueRecord
    why: str
    budget: int | None
    commands: list[str]


class RetiredList(msgspec.Struct):
    """Retired queues in the order of their retirement, and those that were revived and retire again on their turn."""

    rows: list[RetiredQueue]
    again: list[RetiredQueue]


def rows_of(view: View, queues: Sequence[QueueRecord], job: str) -> list[RetiredQueue]:
    """Return a row for each of some queues; `job` stands for the crawl in commands."""
    replenish, budgets = view.settings()[0].frontier.balance_replenish_amount, BudgetsInForce(view)
    found = [
        _row(queue, job, replenish, reached=budgets.reached(queue), held=held)
        for queue, held in zip(queues, holds(view, queues), strict=True)
    ]
    if view.summary().state is CrawlState.TERMINATED:
        return [msgspec.structs.replace(row, budget=None, commands=[]) for row in found]
    return found


def retired_again(view: View, job: str, count: int) -> list[RetiredQueue]:
    """Return queues that an adjustment has revived and that are over budget: they retire again on their turn."""
    next_ones = islice(in_turn(view, QueueState.INACTIVE), LOOKED_AT)
    revived = filter(BudgetsInForce(view).over_budget, queues_by_id(view, (number for _, number in next_ones)))
    return rows_of(view, list(islice(revived, count)), job)


def retired_queues(view: View) -> Iterator[QueueRecord]:
    """Yield the retired queues in the order of their retirement."""
    return queues_by_id(view, (number for _, number in in_turn(view, QueueState.RETIRED)))


def retired_list(view: View, job: str, queues: Iterable[QueueRecord], count: int) -> RetiredList:
    """Return the rows of retired queues, and of as many as `count` that retire again."""
    return RetiredList(rows_of(view, list(queues), job), retired_again(view, job, count))


def _row(queue: QueueRecord, job: str, replenish: int, *, reached: bool, held: Holds) -> RetiredQueue:
    over = is_over_total(queue.expenditure, queue.total_budget, reached)
    return RetiredQueue(
        queue,
        _why(queue, held, over=over),
        raised_budget(queue, replenish) if over else None,
        revival_commands(queue, job, replenish=replenish, reached=reached, held=held),
    )


def _why(queue: QueueRecord, held: Holds, *, over: bool) -> str:
    if queue.by_name:
        return "by an operator"
    if over:
        return "over its total budget"
    if others := list(held.texts()):
        return "; ".join(others)
    if has_completed(queue):
        return f"its limit of {queue.max_completed:,} completed URLs is reached"
    if queue.balance_replenish_amount <= 0:
        return "nothing to replenish"
    return "at the request of a worker, or it waits to be reconsidered"
