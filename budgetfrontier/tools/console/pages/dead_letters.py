"""The dead letters: URIs that have failed for good, with the reason of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState, DeadLetter
from budgetfrontier.rules.uri_outcomes import cause
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import dead_letter, decode_dead
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence

READ = 5000
"""Dead letters that are read for one page, at the most."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of dead letters, the oldest first, all or those with a reason or of a queue."""
    after, reason, queue = query.number("after", 0, most=1 << 62), query.text("reason"), query.text("queue")
    rows: list[DeadLetter] = []
    following = None
    read, left_out = _read(job, after)
    for number, (place, letter) in enumerate(read):
        if len(rows) == query.rows or number == READ:
            following = place
            break
        if reason in ("", cause(letter.reason, letter.queue)) and queue in ("", letter.queue):
            rows.append(letter)
    reasons, totals = counted_reasons(job), job.sample_now().totals
    return {
        "rows": rows,
        "reason": reason,
        "q": queue,
        "next": None if following is None else {"after": following},
        "first": {} if after else None,
        "count": totals.dead,
        "terminated": totals.state is CrawlState.TERMINATED,
        "left_out": as_sentence(left_out),
        "reasons": reasons.most_common(20),
        "read": reasons.total(),
    }


def counted_reasons(job: ConsoleJob) -> Counter[str]:
    """Return how many of the first READ dead letters have each reason, whatever their hosts."""
    read, _ = _read(job, 0)
    return Counter(cause(letter.reason, letter.queue) for _, letter in islice(read, READ))


def _read(job: ConsoleJob, start: int) -> tuple[Iterator[tuple[int, DeadLetter]], str]:
    """Return dead letters from a place on, each with its place, and a sentence on those that are left out.

    The place of a job's is their id, that of a crawl in partitions their number in the answers of all owners.
    """
    if job.is_folder:
        return _stored(job, start), ""
    found = job.look(lambda operator: operator.dead_letters())
    rows = (replace(letter, id=str(name)) for name, letter in found.rows)
    return islice(enumerate(rows), start, None), found.left_out


def _stored(job: ConsoleJob, start: int) -> Iterator[tuple[int, DeadLetter]]:
    with job.view() as view:
        for key, value in view.items(keys.DEAD, keys.u64.pack(start)):
            number = keys.u64.unpack(key)[0]
            yield number, dead_letter(number, decode_dead(value))
