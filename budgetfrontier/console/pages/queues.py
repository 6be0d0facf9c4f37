"""The queues: sorted, filtered, and in pages.

In the order of their turns, or by key, they are read from the indexes, as of the last commit. An order by an amount is
that of the latest scan; the rows in it are as of the last commit.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from budgetfrontier.console.columns import SORTS
from budgetfrontier.console.jobs import Job
from budgetfrontier.console.query import Query
from budgetfrontier.console.turns import INDEXED, in_turn
from budgetfrontier.model import QueueRecord, QueueState
from budgetfrontier.rules.queue_keys import queue_key_bytes
from budgetfrontier.store.view import BudgetsInForce, View

ROWS = 50
FARTHEST = 10_000_000
"""Rows before a page, at the most."""
_LOOKED_AT = 20_000  # queues that are read to find a page of those that match

COLUMNS = (
    ("queue", "queue"), ("state", ""), ("precedence", ""), ("queued", "queued"), ("enqueued", "enqueued"),
    ("balance", "balance"), ("spent", "expenditure"), ("budget", ""), ("average cost", "average_cost"),
    ("errors", "errors"), ("wakes", ""),
)  # fmt: skip
"""The columns, each with the name of the order by it."""


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return a page of queues."""
    state = QueueState(found) if (found := query.choice("state", list(QueueState))) else None
    text = query.text("q")
    scanned = job.scans.want()
    usual = "queued" if scanned else "turn" if state in INDEXED else "queue"
    sort = query.choice("sort", ("turn", "queue", *SORTS), usual)
    if sort == "turn" and state not in INDEXED:
        sort = "queue"
    start, reverse = query.number("start", 0, most=FARTHEST), bool(query.text("reverse"))
    rows: list[QueueRecord] = []
    more = cut = False
    waits = sort in SORTS and scanned is None
    with job.view() as view:
        if waits:
            pass
        elif sort in SORTS and scanned is not None:
            ids, more = scanned.columns.page(sort, state=state, text=text, start=start, limit=ROWS, reverse=reverse)
            rows = list(view.queues_by_id(ids))
        else:
            rows, more, cut = _live(view, sort, state, text, start)
        totals = job.sample_now().totals
    return {
        "rows": rows, "columns": COLUMNS, "state": state or "", "states": list(QueueState), "q": text, "sort": sort,
        "sorts": ("turn", "queue", *SORTS) if state in INDEXED else ("queue", *SORTS), "start": start,
        "reverse": reverse, "next": start + ROWS if more else None,
        "previous": max(start - ROWS, 0) if start else None, "cut": cut, "waits": waits,
        "as_of": scanned.when if scanned and sort in SORTS else None, "scan_progress": job.scans.progress,
        "scan_error": job.scans.error, "totals": totals,
        "count": totals.queues.get(state, 0) if state else sum(totals.queues.values()),
    }  # fmt: skip


def _live(
    view: View, sort: str, state: QueueState | None, text: str, start: int
) -> tuple[list[QueueRecord], bool, bool]:
    """Return a page from the indexes, whether there are more, and whether the search was given up before the end."""
    if sort == "turn" and state is not None:
        ids = in_turn(view, state)
        if not text:
            found = list(islice(ids, start, start + ROWS + 1))
            return list(view.queues_by_id(found[:ROWS])), len(found) > ROWS, False
        candidates = (view.queue_by_id(number) for number in ids)
    else:
        prefix = text if queue_key_bytes(text) else ""
        names = view.names(prefix)
        if state is None:
            names = islice(names, start, None)
            start = 0
        candidates = (queue for name in names if (queue := view.find_queue(name)) is not None)
    show, skipped = BudgetsInForce(view).show, 0
    rows: list[QueueRecord] = []
    for looked_at, queue in enumerate(candidates):
        if looked_at == _LOOKED_AT:
            return rows, False, True
        if (state is None or queue.state is state) and (sort != "turn" or text in queue.queue):
            if skipped < start:
                skipped += 1
                continue
            if len(rows) == ROWS:
                return rows, True, False
            rows.append(show(queue))
    return rows, False, False
