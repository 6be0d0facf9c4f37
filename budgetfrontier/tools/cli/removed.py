"""`removed`: list what deletions, and commands on many queues, have kept for `undo`, and discard what is old."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from budgetfrontier.core.units import format_time
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.on_crawl import noting_continued
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.records import AuditEntry

COLUMNS = ("id", "command", "when", "who", "uris", "bytes", "reason")
DROP = ("reason", "who")
"""The columns for which a narrow terminal may have no room, the first of them first."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "removed",
        removed,
        "list what deletions, and commands on many queues, have kept for `undo`, and discard what is old",
        more="The oldest comes first. With --discard, what is listed is removed for good: each has an audit entry of "
        "its own. Without --older-than, everything is.",
    )
    add_job(parser)
    parser.add_argument(
        "--older-than", type=common.duration, default=0.0, metavar="AGE", help="only of this age (12h, 30d)"
    )
    parser.add_argument("--discard", action="store_true", help="remove what is listed, for good")
    parser.add_argument("--dry-run", action="store_true", help="with --discard: only list what would be removed")
    common.add_format(parser)
    common.add_page(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def removed(args: argparse.Namespace) -> None:
    """List what can be put back; with --discard, remove it."""
    from budgetfrontier.reports.format import counted
    from budgetfrontier.storage.reader import Reader

    if args.dry_run and not args.discard:
        args.usage("--dry-run is for --discard")
    with Reader(common.frontier_path(args.job)) as reader:
        found = kept(reader, before=time.time() - args.older_than)
    chosen = list(common.page(found, args))
    if args.discard and not args.dry_run:
        with common.job_operator(args) as operator, noting_continued(operator) as own:
            operator.close()  # a process cannot read and write one LMDB environment at once
            own += [common.steer(args, "discard", {"id": entry.id}).id for entry, _ in chosen]
    if not args.discard or args.dry_run or args.format != "text":
        rows = (_row(entry, size, text=args.format == "text") for entry, size in chosen)
        common.write_rows(args, rows, COLUMNS, drop=DROP)
    if args.format == "text":
        total = f"{sum(size for _, size in chosen):,} bytes of {counted(len(chosen), 'command')}"
        if not args.discard:
            note(f"{total} kept for undo; --discard removes them for good")
        elif args.dry_run:
            note(f"would discard {total}; dry run: nothing was changed")
        else:
            say(f"discarded {total}")


def kept(reader: Reader, *, before: float) -> list[tuple[AuditEntry, int]]:
    """Return the audit entries from before a time (epoch seconds) that have kept something, and its bytes.

    The oldest comes first. O(audit).
    """
    from budgetfrontier.storage.removed import needed

    with reader.view() as view:
        found = [(view.audit_entry(one.entry), one.kept.bytes) for one in needed(view) if one.entry]
    return [(entry, size) for entry, size in reversed(found) if entry is not None and entry.when <= before]


def _row(entry: AuditEntry, size: int, *, text: bool) -> tuple[object, ...]:
    when = format_time(entry.when) if text else entry.when
    uris = entry.effect.get("deleted", entry.effect.get("dropped"))
    return entry.id, entry.command, when, entry.who, uris, size, entry.reason
