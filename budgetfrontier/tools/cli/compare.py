"""`compare`: two crawls, or two runs of one, side by side."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from budgetfrontier.tools.cli import adjustments, common, output
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_job
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.crawl_comparison import Comparison
    from budgetfrontier.reports.operators import CrawlOperator

_ORDER = ("fetched", "spent", "errors", "bytes")
COLUMNS = ("queue", *(f"{measure}{side}" for measure in _ORDER for side in ("", "_2")))
_BY_THE_HOUR = (
    "of hosts, what was fetched is known by the hour, after 30 days by the day: other runs of the same hour count, too"
)


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "compare",
        on_crawl(compare),
        "compare two crawls, or two runs of one: what each fetched and spent, and the hosts on which they differ most",
        more="Columns that end with _2 are those of the second; `errors` are attempts that were answered with a status "
        "of 400 or more, or not at all, and are not known by run.",
    )
    add_job(parser, cluster=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("other", metavar="JOB2", nargs="?", type=common.job, help="the job to compare with")
    which.add_argument(
        "--runs",
        nargs=2,
        type=int,
        metavar=("RUN", "RUN2"),
        help="compare two runs of JOB, as `runs` numbers them",
    )
    parser.add_argument(
        "--by", choices=("fetched", "spent", "bytes", "errors"), default="fetched",
        help="list the queues first of which this differs most (default: fetched)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=common.most, default=20, metavar="N", help="list at most N queues (default: 20; 0: all)"
    )
    add_format(parser)
    parser.set_defaults(usage=parser.error)


def compare(args: argparse.Namespace, operator: CrawlOperator) -> int | None:
    """Print two crawls, or two runs, side by side."""
    if args.runs is not None:
        if args.by in ("bytes", "errors"):
            args.usage(f"--by {args.by} is not known by run: take fetched or spent")
        from budgetfrontier.reports.crawl_comparison import compared_runs

        found = compared_runs(operator, *args.runs, measure=args.by, limit=args.limit)
        _print(args, found, (f"run {args.runs[0]}", f"run {args.runs[1]}"), output.missing_partitions(operator))
        if args.format != "text" or not found.untold:
            note(found.untold or _BY_THE_HOUR)
        for sentence in found.unsure:
            note(sentence)
        return OK

    def with_other(_: argparse.Namespace, other: CrawlOperator) -> None:
        from budgetfrontier.reports.crawl_comparison import compared
        from budgetfrontier.reports.over_time import between

        adjustments.announce_pass("each other", operator, other)
        now = time.time()
        happened = between(*operator.series(0.0, now))(0.0, now), between(*other.series(0.0, now))(0.0, now)
        with operator.fetched_queues() as one, other.fetched_queues() as two:
            found = compared(one, two, happened, measure=args.by, limit=args.limit)
        lacking = {f"{name}_2": numbers for name, numbers in output.missing_partitions(other).items()}
        _print(args, found, (operator.job, other.job), output.missing_partitions(operator) | lacking)

    return on_crawl(with_other)(argparse.Namespace(**vars(args) | {"job": args.other}))


def _print(args: argparse.Namespace, found: Comparison, names: tuple[str, str], lacking: dict[str, Any]) -> None:
    from msgspec import to_builtins

    from budgetfrontier.reports.crawl_comparison import sentences

    if args.format == "json":
        json.dump(to_builtins(found) | lacking, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    if args.format == "text":
        for sentence in sentences(found, names):
            say(sentence)
    rows = ((row.queue, *(row.amount(side, measure) for measure in _ORDER for side in (0, 1))) for row in found.rows)
    common.write_rows(args, rows, COLUMNS, drop=("bytes_2", "bytes"))
