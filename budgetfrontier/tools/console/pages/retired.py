"""The retired queues as a work list, in the order of their retirement, with URIs and remedies.

Any adjustment revives queues that are over budget until their turn: those that have not had it yet are listed, too.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from budgetfrontier.core.model import CrawlState, QueueState
from budgetfrontier.reports.operators import Selection
from budgetfrontier.reports.retired_list import LOOKED_AT, retired_again, rows_of
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.storage.turn_order import in_turn, is_turn
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import from_row, of_scan
from budgetfrontier.tools.console.query import Query

MATCHED = 1000
"""Retired queues that are asked whether they match a pattern, for one page."""
FARTHEST = 4000
"""Rows of a crawl in partitions before a page, at the most: all before it are sent by each owner."""


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of retired queues."""
    match = query.match("match")
    totals = job.sample_now().totals
    count, terminated = totals.queues.get(QueueState.RETIRED, 0), totals.state is CrawlState.TERMINATED
    asked = of_scan(job) | {"looked_at": LOOKED_AT, "match": match, "count": count, "terminated": terminated}
    if not job.is_folder:
        return asked | _of_partitions(job, query, match)
    after = query.key("after", partial(is_turn, QueueState.RETIRED))
    with job.view() as view:
        # With a pattern, the queues are looked at that it could match; else one row tells whether there are more.
        most = MATCHED if match else query.rows
        found = list(islice(in_turn(view, QueueState.RETIRED, after), most + 1))
        chosen = filter(Selection(match=match or None).test(), queues_by_id(view, (n for _, n in found[:most])))
        matching = list(chosen)
        rows = rows_of(view, matching[: query.rows], str(job.folder))
        again = [] if after else retired_again(view, str(job.folder), query.rows + 1)
    scanned = job.scanned()
    return asked | {
        "rows": rows,
        "again": again[: query.rows],
        "again_cut": len(again) > query.rows,
        "matching": len(matching),
        "cut": len(found) > most,
        "next": {"after": found[most][0].hex()} if len(found) > most else None,
        "first": {} if after else None,
        "spend": scanned.scan.spend if scanned else None,
    }


def _of_partitions(job: ConsoleJob, query: Query, match: str) -> dict[str, Any]:
    """Return a page of the retired queues of all partitions, in the order of their retirement in each."""
    start = query.number("start", 0, most=FARTHEST)
    end = start + query.rows
    found = job.look(lambda operator: operator.retired(match or None, end + 1))
    more = len(found.rows) > end and end <= FARTHEST
    return {
        "rows": found.rows[start:end],
        "again": [] if start else found.again[: query.rows],
        "again_cut": not start and len(found.again) > query.rows,
        "matching": len(found.rows),
        "cut": more,
        **from_row(query, start, more=more),
        "spend": None,
    }
