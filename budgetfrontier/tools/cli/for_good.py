"""The option --for-good of commands that delete, and their hint at `undo`."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.records import AuditEntry


def add_for_good(parser: argparse.ArgumentParser, *, with_option: str = "") -> None:
    """Add the option --for-good; `with_option` is the one that it belongs to."""
    where = f"with {with_option}: " if with_option else ""
    parser.add_argument(
        "--for-good", action="store_true",
        help=f"{where}keep nothing for `undo`, which takes space in the frontier",
    )  # fmt: skip


def details(args: argparse.Namespace) -> dict[str, Any]:
    """Return the part of a command's arguments that --for-good makes."""
    return {"for_good": True} if args.for_good else {}


def note_kept(operator: CrawlOperator, entry: AuditEntry) -> None:
    """Print how to take back a deletion, and the space that this takes until then."""
    found = entry.effect.get("kept")
    if found is not None:
        undo = shlex.join(("budgetfrontier", "undo", operator.job, str(entry.id)))
        how = f"to restore those left, too: {undo} --force" if entry.effect.get("left") else f"to take it back: {undo}"
        note(f"{how} (until then {found['bytes']:,} bytes are kept; --discard removes them)")
