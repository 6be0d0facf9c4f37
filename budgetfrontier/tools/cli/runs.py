"""`runs`: list the runs of a job, from when to when, and how each ended."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from budgetfrontier.core.units import time_or_dash
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_job, add_page
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.core.model import Run
    from budgetfrontier.reports.operators import CrawlOperator

COLUMNS = ("number", "began", "ended", "lasted", "end", "reason", "program", "leased", "kernel", "pid", "host")
DROP = ("host", "pid", "kernel", "leased", "ended")
"""The columns for which a narrow terminal may have no room, the first of them first."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "runs",
        on_crawl(runs),
        "list the runs: when each began and ended, how, and why",
        more="The newest run comes last. `end` is EXIT, LIMIT, SIGNAL, OPERATOR, DISK_FULL, ERROR, or KILLED: it could "
        "store no end, and ended after its last commit, which is the time given. Commands on a stopped job are not "
        "runs, unless they did not end: `audit` lists them. A run of a crawl in partitions is a time in which any of "
        "them had a worker. `kernel` is that of the engine: native (compiled), or Python. The last 1,000 runs stay.",
    )
    add_job(parser, cluster=True)
    add_format(parser)
    add_page(parser, rows="newest")


def runs(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """List runs; --limit and --offset count from the newest."""
    from budgetfrontier.reports.format import clean

    found = operator.runs()
    end = max(len(found) - args.offset, 0)
    begin = 0 if args.limit is None else max(end - args.limit, 0)
    text, now = args.format == "text", time.time()
    common.write_rows(
        args, (_row(run, now, time_or_dash if text else None) for run in found[begin:end]), COLUMNS, drop=DROP
    )
    if operator.unanswered():
        note("these runs are those of the partitions that answer: with the others, there may be fewer and longer ones")
    if text:
        note(f"process: {clean(operator.process_line())}")


def _row(run: Run, now: float, when: Callable[[float | None], str] | None) -> tuple[object, ...]:
    """Return the row of a run; `when` formats its times for people."""
    from budgetfrontier.core.units import format_duration

    lasted = (now if run.ended is None else run.ended) - run.began
    rest = (run.reason, run.program, run.leased, run.kernel, run.pid, run.host)
    if when is None:
        return (run.number, run.began, run.ended, lasted, run.end, *rest)
    shown = format_duration(round(lasted)) if lasted >= 1.0 else "0s"
    return (run.number, when(run.began), when(run.ended), shown, run.end or "running", *rest)
