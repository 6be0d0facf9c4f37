"""Commands that maintain the files of a job: `compact`, `backup`."""

from __future__ import annotations

import argparse
from pathlib import Path

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_job
from budgetfrontier.tools.cli.sentences import say


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "compact",
        compact,
        "shrink the frontier's file to the size of its content",
        more="The crawl must be stopped; exit code 5 names the process that runs it. A copy without free pages is "
        "made, compared record by record, and then replaces the file atomically. Without enough free disk for it, the "
        "exit code is 3, and the frontier is unchanged.",
    )
    add_job(parser)

    parser = add_command(
        commands,
        "backup",
        backup,
        "copy the frontier as of its last commit into a new job's folder",
        more="The crawl may be running. DIR/frontier appears when the copy is complete and synced; DIR is a job like "
        "others for report, verify and crawl then. Logs and reports are not copied.",
    )
    add_job(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the target: a folder that is empty or does not exist")
    parser.add_argument(
        "--max-growth",
        type=size,
        default=None,
        metavar="SIZE",
        help="stop if the frontier grows by SIZE, such as 500MiB, while it is copied: the copy keeps old "
        "pages in use (default: the size of the frontier, at least 1GiB)",
    )


def compact(args: argparse.Namespace) -> None:
    """Compact a stopped job."""
    from budgetfrontier.storage.backup import compact as make_compact

    before, after = make_compact(common.frontier_path(args.job))
    say(f"before {before:,} bytes, after {after:,} bytes")


def backup(args: argparse.Namespace) -> None:
    """Back up a job, running or stopped."""
    from budgetfrontier.errors import FrontierError
    from budgetfrontier.storage.modes import make_folder
    from budgetfrontier.storage.reader import Reader

    folder: Path = args.folder
    copied = folder / "frontier"
    known = {
        copied.name,
        copied.name + ".partial",
    }  # .partial is left by a backup that was killed, or belongs to one that is running
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise FrontierError(f"{folder} is no folder; name one that is empty or does not exist")
    if folder.exists() and not known.issuperset(item.name for item in folder.iterdir()):
        raise FrontierError(f"{folder} is not empty; name a folder that is empty or does not exist")
    with Reader(common.frontier_path(args.job)) as reader:
        make_folder(folder)
        reader.backup(copied, max_growth=args.max_growth)
    say(f"{copied}: {(copied / 'data.mdb').stat().st_size:,} bytes")


def size(text: str) -> int:
    """Parse an argument that is a size, such as 500MiB, to bytes."""
    from budgetfrontier.settings.values import SIZE, read_size

    try:
        return read_size(text)
    except ValueError:
        raise common.wrong(SIZE.text, text) from None
