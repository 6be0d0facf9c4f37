"""The command that looks for damage: `verify`."""

from __future__ import annotations

import argparse
import struct

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command, add_job


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "verify",
        verify,
        "check every invariant of a frontier",
        more="Reads everything as of the last commit, running or not, and writes nothing. Exit code 6 means damage.",
    )
    add_job(parser)


def verify(args: argparse.Namespace) -> None:
    """Check the last commit."""
    import lmdb
    import msgspec

    from budgetfrontier.errors import CorruptFrontier
    from budgetfrontier.store.reader import Reader

    path = common.frontier_path(args.job)
    try:
        with Reader(path) as reader:
            reader.check()
    except (lmdb.Error, msgspec.MsgspecError, struct.error, ValueError, KeyError) as error:
        # Whatever a damaged record does to who reads it.
        raise CorruptFrontier(f"{path}: unreadable ({type(error).__name__}: {error}); restore a backup") from error
    print(f"{path}: no damage found")
