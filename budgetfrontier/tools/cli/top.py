"""The command `top`: the overview of a job in a terminal, kept current."""

from __future__ import annotations

import argparse
import sys

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_job


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "top",
        top,
        "watch a job in the terminal, and pause it",
        more="Shows the overview once a second; ? lists the keys. When it is piped, or with --once, it is printed "
        "once. Needs the extra 'console'.",
    )
    add_job(parser)
    parser.add_argument("--once", action="store_true", help="print the overview once, as plain text, and exit")


def top(args: argparse.Namespace) -> None:
    """Show the overview until q or Ctrl-C, or print it once."""
    from budgetfrontier.errors import MissingExtra

    try:
        from budgetfrontier.tools.console.jobs import ConsoleJob
        from budgetfrontier.tools.console.top_terminal import is_screen, print_once, watch
    except ModuleNotFoundError as error:
        raise MissingExtra("console") from error
    job = ConsoleJob("", args.job, common.frontier_path(args.job))
    try:
        if args.once or not is_screen(sys.stdin, sys.stdout):
            print_once(job)
        else:
            watch(job)
    finally:
        job.close()
