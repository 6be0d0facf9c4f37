"""Commands that maintain the files of a job: `compact`, `backup`."""

from __future__ import annotations

import argparse
from pathlib import Path

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command, add_job


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "compact",
        compact,
        "make the frontier's file as small as what it holds",
        more="The crawl must be stopped; exit code 5 names the process that runs it. A copy without free pages is "
        "made, compared record by record, and then takes the place of the file at once. It needs free disk for the "
        "copy: exit code 3, and a frontier as it was, if there is less.",
    )
    add_job(parser)

    parser = add_command(
        commands,
        "backup",
        backup,
        "copy the frontier as of its last commit into a new job's folder",
        more="Running or stopped. DIR appears when the copy is whole and synced, and is a job like any other: report, "
        "verify and crawl take it. Logs and reports are not copied.",
    )
    add_job(parser)
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to: a folder that is empty, or not there yet")
    parser.add_argument(
        "--max-growth",
        type=_size,
        default=None,
        metavar="SIZE",
        help="stop if the frontier grows by SIZE, such as 500MiB, while it is copied: pages that a copy reads are not "
        "used again meanwhile (default: as much as the frontier has, at least 1GiB)",
    )


def compact(args: argparse.Namespace) -> None:
    """Compact a stopped job."""
    from budgetfrontier.store.backup import compact as make_compact

    before, after = make_compact(common.frontier_path(args.job))
    print(f"before {before:,} bytes, after {after:,} bytes")


def backup(args: argparse.Namespace) -> None:
    """Back up a job, running or stopped."""
    from budgetfrontier.errors import FrontierError
    from budgetfrontier.store.modes import make_folder
    from budgetfrontier.store.reader import Reader

    folder: Path = args.folder
    copied = folder / "frontier"
    known = {
        copied.name,
        copied.name + ".partial",
    }  # .partial is left by a backup that was killed, or belongs to one that is running
    if folder.exists() and (not folder.is_dir() or not known.issuperset(item.name for item in folder.iterdir())):
        raise FrontierError(f"{folder} is not empty; name a folder that is empty or does not exist")
    with Reader(common.frontier_path(args.job)) as reader:
        make_folder(folder)
        reader.backup(copied, max_growth=args.max_growth)
    print(f"{copied}: {(copied / 'data.mdb').stat().st_size:,} bytes")


def _size(text: str) -> int:
    from budgetfrontier.settings.values import SIZE, read_size, show

    try:
        return read_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {SIZE.text}, got {show(text)}") from None
