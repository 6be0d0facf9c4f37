"""The dead letters: URIs that have failed for good, with the reason of each."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from budgetfrontier.core.model import DeadLetter
from budgetfrontier.rules.uri_outcomes import cause
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import dead_letter, decode_dead
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

READ = 5000
"""Dead letters that are read for one page, at the most."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of dead letters, the oldest first, all or those with a reason or of a queue."""
    after, reason, queue = query.number("after", 0, most=1 << 62), query.text("reason"), query.text("queue")
    rows: list[DeadLetter] = []
    following = None
    with job.view() as view:
        for number, key, value in _from(view, after):
            if len(rows) == query.rows or number == READ:
                following = keys.u64.unpack(key)[0]
                break
            row = decode_dead(value)
            if reason in ("", cause(row.reason, row.name)) and queue in ("", row.name):
                rows.append(dead_letter(keys.u64.unpack(key)[0], row))
        reasons = counted_reasons(view)
    return {
        "rows": rows,
        "reason": reason,
        "q": queue,
        "next": None if following is None else {"after": following},
        "first": {} if after else None,
        "count": job.sample_now().totals.dead,
        "reasons": reasons.most_common(20),
        "read": reasons.total(),
    }


def counted_reasons(view: View) -> Counter[str]:
    """Return how many of the first READ dead letters have each reason, whatever their hosts."""
    rows = (decode_dead(value) for _, _, value in islice(_from(view, 0), READ))
    return Counter(cause(row.reason, row.name) for row in rows)


def _from(view: View, number: int) -> Any:
    items = view.items(keys.DEAD, keys.u64.pack(number))
    return ((at, key, value) for at, (key, value) in enumerate(items))
