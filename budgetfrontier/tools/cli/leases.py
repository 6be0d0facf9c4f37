"""`leases`: list the URIs that are out, with their age."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import time_or_dash
from budgetfrontier.core.vocabulary import LEASE_FIELDS
from budgetfrontier.tools.cli import common, name_arguments
from budgetfrontier.tools.cli.common import Commands, add_command, add_job
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "leases",
        on_crawl(leases),
        "list the leases: which URIs are being fetched, and since when",
        more="As of the last commit: what was leased and finished since is not listed. `deliveries` counts how often "
        "the URI was handed out, `deadline` is when it is handed out again, `landed` tells that its download is over.",
    )
    add_job(parser, cluster=True)
    parser.add_argument(
        "--older-than", type=common.duration, default=None, metavar="AGE", help="only leases this old, or older (10m)"
    )
    parser.add_argument("--queue", metavar="KEY", help="only leases of this queue")
    common.add_listing(parser, columns=LEASE_FIELDS, sort="age")


def leases(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """List leases, the oldest first."""
    from budgetfrontier.reports import lease_rows

    key = None if args.queue is None else name_arguments.queue_to_show(operator, args.queue)[0].queue
    found, now = operator.leases(key), time.time()
    leases = list(found.rows)
    rows: Iterable[dict[str, Any]] = lease_rows.lease_rows(leases, now)
    if args.older_than is not None:
        rows = (row for row in rows if row["age"] >= args.older_than)
    rows = name_arguments.noting_none(rows, "no lease matches" if leases else "no URI is leased", operator)
    rows = common.page(rows, args, key=lambda row: _sort_key(row[args.sort]))
    if args.format == "text":
        rows = (lease_rows.for_people(row, now, time_or_dash(row["began"])) for row in rows)
    common.write_rows(args, map(itemgetter(*LEASE_FIELDS), rows), LEASE_FIELDS, drop=lease_rows.DROP)
    if found.left_out:
        note(found.left_out)


def _sort_key(value: Any) -> tuple[bool, Any]:
    """Return a key that sorts unknown values before all others."""
    return value is not None, value if value is not None else 0
