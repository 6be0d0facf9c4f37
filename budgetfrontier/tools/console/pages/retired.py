"""The retired queues as a work list, in the order of their retirement, with URIs and remedies.

Any adjustment revives queues that are over budget until their turn: those that have not had it yet are listed, too.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.reports.operators import Selection
from budgetfrontier.reports.suggested_commands import raised_budget, revival_commands
from budgetfrontier.rules.budgets import has_completed, is_over_total
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.holds import Holds, holds
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.storage.turn_order import in_turn, is_turn
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

LOOKED_AT = 2000
"""INACTIVE queues, of those next in turn, that are asked whether they are over budget."""


MATCHED = 1000
"""Retired queues that are asked whether they match a pattern, for one page."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of retired queues."""
    after = query.key("after", partial(is_turn, QueueState.RETIRED))
    match = query.match("match")
    with job.view() as view:
        # With a pattern, the queues are looked at that it could match; else one row tells whether there are more.
        most = MATCHED if match else query.rows
        found = list(islice(in_turn(view, QueueState.RETIRED, after), most + 1))
        budgets = BudgetsInForce(view)
        chosen = filter(Selection(match=match or None).test(), queues_by_id(view, (n for _, n in found[:most])))
        matching = list(chosen)
        queues = matching[: query.rows]
        next_ones = islice(in_turn(view, QueueState.INACTIVE), 0 if after else LOOKED_AT)
        revived = filter(budgets.over_budget, queues_by_id(view, (number for _, number in next_ones)))
        again = list(islice(revived, query.rows))
        replenish = view.settings()[0].frontier.balance_replenish_amount
        rows, more = (
            [
                _row(queue, str(job.folder), replenish, reached=budgets.reached(queue), held=held)
                for queue, held in zip(part, holds(view, part), strict=True)
            ]
            for part in (queues, again)
        )
    scanned = job.scanned()
    return {
        "rows": rows,
        "again": more,
        "looked_at": LOOKED_AT,
        "match": match,
        "matching": len(matching),
        "cut": len(found) > most,
        "next": {"after": found[most][0].hex()} if len(found) > most else None,
        "first": {} if after else None,
        "count": job.sample_now().totals.queues.get(QueueState.RETIRED, 0),
        "spend": scanned.scan.spend if scanned else None,
        "as_of": scanned.when if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
    }


def _row(queue: QueueRecord, job: str, replenish: int, *, reached: bool, held: Holds) -> dict[str, Any]:
    over = is_over_total(queue.expenditure, queue.total_budget, reached)
    return {
        "queue": queue,
        "why": _why(queue, held, over=over),
        "budget": raised_budget(queue, replenish) if over else None,
        "commands": revival_commands(queue, job, replenish=replenish, reached=reached, held=held),
    }


def _why(queue: QueueRecord, held: Holds, *, over: bool) -> str:
    if queue.by_name:
        return "by name"
    if over:
        return "over its total budget"
    if others := list(held.texts()):
        return "; ".join(others)
    if has_completed(queue):
        return f"its limit of {queue.max_completed:,} completed URLs is reached"
    if queue.balance_replenish_amount <= 0:
        return "nothing to replenish"
    return "at the request of a worker, or it waits to be reconsidered"
