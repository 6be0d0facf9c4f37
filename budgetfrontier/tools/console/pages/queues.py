"""The queues: sorted, filtered, and in pages.

In the order of their turns, or by key, they are read from the indexes, as of the last commit. An order by an amount is
that of the latest scan; the rows in it are as of the last commit, without those that have left the state asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from budgetfrontier.core.model import QueueRecord, QueueState, Summary
from budgetfrontier.rules.queue_keys import queue_key_bytes, queue_key_of
from budgetfrontier.rules.verdict import WITH_QUEUED
from budgetfrontier.storage import keys
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.storage.turn_order import INDEXED, in_turn, is_turn
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.columns import SORTS
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

FARTHEST = 10_000_000
"""Rows before a page, at the most."""
_LOOKED_AT = 5000  # queues that are read to find a page of those that match

COLUMNS = (
    ("queue", "queue"), ("state", ""), ("queued", "queued"), ("spent / budget", "expenditure"),
    ("avg cost", "average_cost"), ("errors", "errors"), ("balance", "balance"), ("enqueued", "enqueued"),
    ("prec", ""), ("leased", "last_lease_time"),
)  # fmt: skip
"""The columns, each with the name of the order by it."""


UNFINISHED = "unfinished"
"""The choice of all queues that keep a crawl from its finish."""
CHOICES = {UNFINISHED: WITH_QUEUED, **{str(state): (state,) for state in QueueState}}
"""The choices of queues by their states."""


class ListingPart(NamedTuple):
    """A part of a listing by an index: its rows, the key of the next one, and whether the search was given up."""

    rows: list[QueueRecord]
    next: bytes | None = None
    cut: bool = False


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of queues."""
    chosen = query.choice("state", CHOICES)
    states = CHOICES.get(chosen, ())
    state = states[0] if len(states) == 1 else None
    text, start = query.text("q"), query.number("start", 0, most=FARTHEST)
    reverse = query.flag("reverse")
    scanned = job.scanned()
    usual = "queued" if scanned else "turn" if state in INDEXED else "queue"
    sort = query.choice("sort", ("turn", "queue", *SORTS), usual)
    if sort == "turn" and state not in INDEXED:
        sort = "queue"
    after = query.key("after", partial(is_turn, state) if sort == "turn" and state else _is_key)
    by_amount = sort in SORTS
    context: dict[str, Any] = {"rows": [], "next": None, "cut": False, "first": None, "as_of": None, "left_state": 0}
    with job.view() as view:
        if not by_amount:
            context |= _live(view, sort, states, text, after, query.rows)
        elif scanned is not None:
            ids, more = scanned.columns.page(
                sort, states=states, text=text, start=start, limit=query.rows, reverse=reverse
            )
            rows = [queue for queue in queues_by_id(view, ids) if not states or queue.state in states]
            context |= {"rows": rows, "as_of": scanned.when, "left_state": len(ids) - len(rows)}
            context["next"] = {"start": start + query.rows} if more else None
            context["first"] = {"start": max(start - query.rows, 0) or None} if start else None
        totals = job.sample_now().totals
    return context | {
        "columns": COLUMNS, "state": chosen, "states": list(QueueState), "q": text, "sort": sort,
        "sorts": ("turn", "queue", *SORTS) if state in INDEXED else ("queue", *SORTS), "by_amount": by_amount,
        "start": start, "reverse": reverse, "waits": by_amount and scanned is None,
        "scan_progress": job.scans.progress, "scan_error": job.scans.error, "is_glob": False,
        "pattern": f"queue:*{text}*" if text else "*", **counts_of(totals, chosen),
    }  # fmt: skip


def counts_of(totals: Summary, chosen: str) -> dict[str, Any]:
    """Return the numbers of queues by choice, and of those that are shown."""
    counts = {name: sum(totals.queues.get(state, 0) for state in states) for name, states in CHOICES.items()}
    count = counts[chosen] if chosen else sum(totals.queues.values())
    return {"counts": counts, "count": count, "chosen_states": CHOICES.get(chosen, ())}


def _is_key(key: bytes) -> bool:
    return queue_key_of(key) is not None


def _live(view: View, sort: str, states: Sequence[QueueState], text: str, after: bytes, most: int) -> dict[str, Any]:
    if sort == "turn":
        found = ((key, view.queue_by_id(number)) for key, number in in_turn(view, states[0], after))
        part = _part(view, found, lambda queue: queue.state in states and text in queue.queue, most)
    else:
        part = _part(view, _by_key(view, text, after), lambda queue: not states or queue.state in states, most)
    return {
        "rows": part.rows,
        "next": None if part.next is None else {"after": part.next.hex()},
        "first": {} if after else None,
        "cut": part.cut,
    }


def _by_key(view: View, prefix: str, after: bytes) -> Iterator[tuple[bytes, QueueRecord]]:
    """Yield the queues whose keys begin with a text, by key."""
    start = queue_key_bytes(prefix) or b""
    items = takewhile(lambda item: item[0].startswith(start), view.items(keys.QUEUE_IDS, after or start))
    return ((key, view.queue_by_id(keys.u32.unpack(number)[0])) for key, number in items)


def _part(
    view: View, found: Iterator[tuple[bytes, QueueRecord]], test: Callable[[QueueRecord], bool], most: int
) -> ListingPart:
    """Return the first `most` rows that pass a test, of so many as are looked at."""
    show, rows = BudgetsInForce(view).show, list[QueueRecord]()
    for looked_at, (key, queue) in enumerate(found):
        if looked_at == _LOOKED_AT or len(rows) == most:
            return ListingPart(rows, key, looked_at == _LOOKED_AT)
        if test(queue):
            rows.append(show(queue))
    return ListingPart(rows)
