"""`statuses`: list which hosts answer with which statuses, and the kinds of errors."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from budgetfrontier.tools.cli import common, output
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_job
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "statuses",
        on_crawl(statuses),
        "list the hosts that answer with errors, by status, and the kinds of errors",
        more="The figures are those that the frontier counts at each end of a lease that has details, from the "
        "beginning of the crawl; no log is read. `none` are attempts that failed without an answer, and pages "
        "that were given up with their robots.txt, unrequested (the kind `robots.txt unreachable`); `unreported` those "
        "that succeeded and whose program gave no status. A robots.txt counts only if it fails. "
        "`repeated` is estimated from the last 64 contents at most, mostly within 20 percentage points.",
    )
    add_job(parser, cluster=True)
    common.add_match(parser)
    parser.add_argument(
        "--by", choices=("host", "kind"), default="host", help="a row for each queue, or for each kind of error"
    )
    parser.add_argument(
        "--status", type=_status, metavar="STATUS",
        help="with --by host: those with most of this class (2xx to 5xx, none), of this status (404), or of this kind "
        "of error, as --by kind names it (default: of all errors)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=common.most, default=20, metavar="N",
        help="list at most N queues or kinds (default: 20; 0: 5,000)",
    )  # fmt: skip
    add_format(parser)
    parser.set_defaults(usage=parser.error)


def _status(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("it is empty; without it, all errors count")
    from budgetfrontier.reports.status_tables import status_named

    try:
        return status_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def statuses(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """Print the answers of hosts, or the kinds of errors."""
    if args.by == "kind" and args.status is not None:
        args.usage("--status chooses hosts: give it without --by kind")
    from msgspec import to_builtins

    from budgetfrontier.reports import status_tables as report
    from budgetfrontier.reports.format import clean
    from budgetfrontier.reports.operators import Selection

    found = operator.statuses(Selection(match=args.match), status=args.status or "", limit=args.limit)
    if args.format == "json":
        totals = dict(zip(report.CLASSES, found.classes, strict=True))
        whole = {"totals": totals} | to_builtins(found) | output.missing_partitions(operator)
        json.dump(whole, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    is_text = args.format == "text"
    if is_text and (found.queues or args.match is None):
        say(report.sentence(found))
    if args.by == "kind":
        rows = [tuple(getattr(one, name) for name in report.KIND_COLUMNS) for one in found.kinds]
        common.write_rows(args, rows, report.KIND_COLUMNS)
    else:
        rows = [report.row_of(row, for_people=is_text) for row in found.rows]
        common.write_rows(args, rows, report.COLUMNS, drop=report.DROP)
    if not found.queues and args.match is not None:
        note(f"no attempt has ended in a queue that matches {clean(args.match)}")
    elif not rows and any(found.classes):
        note("no attempt ended so")
