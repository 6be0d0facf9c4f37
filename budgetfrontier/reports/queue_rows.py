"""Rows of queues for people: the columns of a listing, and which of them a narrow terminal does without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.units import short_duration

PIPED: tuple[str, ...] = (
    "queue", "state", "precedence", "queued", "enqueued", "balance", "expenditure", "total_budget", "average_cost",
    "errors", "wake_in", "leased_ago",
)  # fmt: skip
"""The columns of text that is piped: scripts read them."""

_TIMES = ("wake_in", "leased_ago")  # they are one behind the other

TERMINAL = (*PIPED, "balance_replenish_amount", "last_cost", "last_leased", "last_enqueued")
"""The columns for which a terminal may have room."""

WIDE = (*TERMINAL, "bytes")
"""All columns."""

DROP = (
    "last_enqueued", "last_leased", "last_cost", "balance_replenish_amount", "leased_ago", "average_cost", "enqueued",
    "balance", "precedence", "errors",
)  # fmt: skip
"""The columns that a terminal without room leaves out, in this order."""

_SHOWN_BY = {"wake_time": "wake_in", "last_lease_time": "leased_ago"}


def sorted_by(columns: tuple[str, ...], sort: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of a listing that is sorted by a field, which is one of them, and which may be left out."""
    shown = _SHOWN_BY.get(sort, sort)
    return columns if shown in columns else (*columns, shown), tuple(name for name in DROP if name != shown)


def row_of(columns: Sequence[str], now: float) -> Callable[[QueueRecord], tuple[object, ...]]:
    """Return the function that makes the row of a queue; `now` is in epoch seconds."""
    first, place = attrgetter(*(name for name in columns if name not in _TIMES)), columns.index(_TIMES[0])

    def row(queue: QueueRecord) -> tuple[object, ...]:
        values = first(queue)
        wake_in = short_duration(queue.wake_time - now) if queue.wake_time > now else None
        leased_ago = short_duration(int(now) - queue.last_lease_time) if queue.last_lease_time else None
        return *values[:place], wake_in, leased_ago, *values[place:]

    return row
