"""`removed`: list what deletions, and commands on many queues, have kept for `undo`, and discard what is old."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.units import format_time
from budgetfrontier.tools.cli import common, exits
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.on_crawl import give, on_crawl
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.audit_inverses import KeptRow
    from budgetfrontier.reports.operators import CrawlOperator

DROP = ("reason", "who")
"""The columns for which a narrow terminal may have no room, the first of them first."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "removed",
        on_crawl(removed),
        "list what deletions, and commands on many queues, have kept for `undo`, and discard what is old",
        more="The oldest comes first. With --discard, what is listed is removed for good: each has an audit entry of "
        "its own. Without --older-than, everything is.",
    )
    add_job(parser, cluster=True)
    parser.add_argument(
        "--older-than", type=common.duration, default=0.0, metavar="AGE", help="only what is older than this (12h, 30d)"
    )
    parser.add_argument("--discard", action="store_true", help="remove what is listed, for good")
    parser.add_argument("--dry-run", action="store_true", help="with --discard: only list what would be removed")
    common.add_format(parser)
    common.add_page(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def removed(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """List what can be put back; with --discard, remove it."""
    from budgetfrontier.reports.audit_inverses import KeptRow, kept_rows
    from budgetfrontier.reports.format import counted

    if args.dry_run and not args.discard:
        args.usage("--dry-run is for --discard")
    kept, left_out = kept_rows(operator, time.time() - args.older_than)
    chosen = list(common.page(kept, args))
    if left_out:
        note(left_out)
    discards = args.discard and not args.dry_run
    given = [give(args, operator, "discard", {"id": row.id}) for row in chosen if discards]
    if not discards or args.format != "text":
        rows: Iterable[tuple[object, ...]] = map(_in_words, chosen) if args.format == "text" else chosen
        common.write_rows(args, rows, KeptRow._fields, drop=DROP)
    if args.format == "text":
        rest = "; what the command in progress keeps is listed once that is done" if operator.in_progress() else ""
        total = f"{sum(row.bytes for row in chosen):,} bytes of {counted(len(chosen), 'command')}"
        if not args.discard:
            note(f"{total} kept for undo; --discard removes them for good{rest}")
        elif args.dry_run:
            note(f"would discard {total}")
        else:
            gone = [applied.entry.effect["bytes"] for applied, _ in given if applied.entry is not None]
            say(f"discarded {sum(gone):,} bytes of {counted(len(gone), 'command')}")
    return max((code for _, code in given), default=exits.OK)


def _in_words(row: KeptRow) -> tuple[object, ...]:
    """Return a row as text has it."""
    return row.id, command_in_words(row.command), format_time(row.when), *row[3:]
