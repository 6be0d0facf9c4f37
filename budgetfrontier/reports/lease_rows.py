"""Rows of leases: which URIs are out, since when and until when. Heritrix calls this its threads report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from budgetfrontier.core.model import StoredLease
from budgetfrontier.core.units import short_duration

DROP = ("via", "began", "cost", "id", "landed", "attempt", "queue")
"""The columns that a terminal without room leaves out, in this order."""


def lease_rows(leases: Iterable[StoredLease], now: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each lease. `age` is in seconds, other times are absolute."""
    for lease in leases:
        yield {
            "id": lease.id,
            "queue": lease.queue,
            "url": lease.uri.url,
            "age": max(now - lease.began, 0.0),
            "deliveries": lease.delivery,
            "attempt": lease.attempt,
            "landed": lease.landed,
            "deadline": lease.expires,
            "began": lease.began,
            "cost": lease.cost,
            "via": lease.uri.via or "",
        }


def for_people(row: dict[str, Any], now: float, when: str) -> dict[str, Any]:
    """Return a row with durations instead of seconds: the deadline as the time left. `when` is the text of `began`."""
    left = row["deadline"] - now
    return row | {
        "age": short_duration(row["age"]),
        "deadline": f"in {short_duration(left)}" if left > 0 else f"{short_duration(-left)} ago",
        "landed": "yes" if row["landed"] else None,
        "began": when,
    }
