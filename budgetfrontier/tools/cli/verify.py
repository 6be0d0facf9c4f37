"""The command that finds and repairs damage: `verify`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_job
from budgetfrontier.tools.cli.sentences import note, say


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "verify",
        verify,
        "check every page and every invariant of a frontier",
        more="Reads everything as of the last commit, and writes nothing; the crawl may be running. Exit code 6 means "
        "damage. With --repair, readable records are kept, and counters and indexes are rebuilt from them; unreadable "
        "records are set aside in a folder beside the frontier, with the damaged file and a list of changes.",
    )
    add_job(parser)
    parser.add_argument(
        "--repair", action="store_true", help="repair what is damaged; the crawl must be stopped (exit code 5)"
    )
    parser.add_argument(
        "--no-backup", action="store_true", help="with --repair: do not keep the damaged file, only what is set aside"
    )


_ADVICE = re.compile("; restore a backup.*")  # of each line: --repair saves what can be read


def verify(args: argparse.Namespace) -> None:
    """Check the last commit of a frontier; with --repair, repair it and check again."""
    from budgetfrontier.errors import CorruptFrontier, NotAFrontier
    from budgetfrontier.storage.lmdb_env import REMEDY
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.verify import verify as check

    path = common.frontier_path(args.job)
    try:
        check(path)
    except (CorruptFrontier, NotAFrontier) as damage:
        if not args.repair:
            if isinstance(damage, CorruptFrontier) and not _ADVICE.search(str(damage)):
                raise CorruptFrontier(f"{damage}\n{path} is damaged; {REMEDY}") from None
            raise
        note(_ADVICE.sub("", str(damage)))
        _repair(path, keep_damaged=not args.no_backup)
        check(path)
        say(f"{path}: repaired")
    else:
        say(f"{path}: no damage found")
        with Reader(path) as reader, reader.view() as view:
            kept = view.counters().removed
        if kept:
            note(f"{kept:,} bytes are kept for `undo`; `removed` lists them")


def _repair(path: Path, *, keep_damaged: bool) -> None:
    from budgetfrontier.reports.format import clean
    from budgetfrontier.storage.repair.repair_steps import repair

    done = repair(path, keep_damaged=keep_damaged)
    for line in done.first_changes:
        say(clean(line))
    if done.changes > len(done.first_changes):
        say(f"...and {done.changes - len(done.first_changes):,} more")
    kept = "the damaged file, and " if keep_damaged else ""
    aside = f", and what was set aside ({done.set_aside:,})" if done.set_aside else ""
    say(f"{done.folder}: {kept}all that was changed ({done.changes:,}){aside}")
