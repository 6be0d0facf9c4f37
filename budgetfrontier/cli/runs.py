"""`runs`: list what has run a job, from when to when, and how each run ended."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command, add_format, add_job, add_page

if TYPE_CHECKING:
    from budgetfrontier.model import Run

COLUMNS = ("number", "began", "ended", "lasted", "end", "reason", "program", "leased", "pid", "host")
DROP = ("host", "pid", "leased")
"""The columns for which a narrow terminal may have no room, the first of them first."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "runs",
        runs,
        "list the runs: when each began and ended, how, and why",
        more="The newest run comes last. `end` is EXIT, LIMIT, SIGNAL, OPERATOR, DISK_FULL, ERROR, or KILLED: it could "
        "store no end, and ended after its last commit, which is the time given. Commands on a stopped job are not "
        "runs, unless they did not end: `audit` lists them. The last 1,000 runs are kept.",
    )
    add_job(parser)
    add_format(parser)
    add_page(parser)


def runs(args: argparse.Namespace) -> None:
    """List runs; --limit and --offset count from the newest."""
    from budgetfrontier.rules.verdict import process_line
    from budgetfrontier.store.reader import Reader

    with Reader(common.frontier_path(args.job)) as reader:
        found = reader.runs(None if args.limit is None else args.limit + args.offset)
        standing = reader.standing()
    text, now = args.format == "text", time.time()
    rows = (_row(run, now, text=text) for run in found[: len(found) - args.offset])
    common.write_rows(args, rows, COLUMNS, drop=DROP)
    if text:
        common.note(f"process: {process_line(standing)}")


def _row(run: Run, now: float, *, text: bool) -> tuple[object, ...]:
    from budgetfrontier.units import format_duration

    lasted = (now if run.ended is None else run.ended) - run.began
    began, ended = (_when(run.began), _when(run.ended)) if text else (run.began, run.ended)
    shown = format_duration(round(lasted)) if text else lasted
    end = "running" if text and run.end is None else run.end
    return (run.number, began, ended, shown, end, run.reason, run.program, run.leased, run.pid, run.host)


def _when(epoch: float | None) -> str:
    return "-" if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
