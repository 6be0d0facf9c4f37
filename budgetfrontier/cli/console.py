"""The command `console`: pages of running and stopped jobs for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command
from budgetfrontier.cli.messages import note


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "console",
        console,
        "show jobs in a browser, and steer them",
        more="Read-only unless --token-file is given. Needs the extra 'console'.",
    )
    parser.add_argument("jobs", metavar="JOB", type=Path, nargs="+", help="a job's folder; the jobs may be running")
    parser.add_argument(
        "--listen", default="127.0.0.1:8089", metavar="WHERE",
        help="ADDRESS:PORT, or unix:PATH for a socket of its owner (default: 127.0.0.1:8089); other machines are "
        "answered only with --token-file",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with a token of at least 16 characters, without which nothing is shown, and with which jobs can "
        "be steered",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name under which the console is reached, such as that of a proxy before it, repeatable",
    )  # fmt: skip


def console(args: argparse.Namespace) -> None:
    """Serve the pages until it is stopped."""
    from budgetfrontier.errors import MissingExtra

    try:
        from budgetfrontier.console.jobs import named
        from budgetfrontier.console.serving import serve
    except ModuleNotFoundError as error:
        raise MissingExtra("console") from error
    jobs = named([(job, common.frontier_path(job)) for job in args.jobs])
    serve(
        jobs,
        listen=args.listen,
        token_file=args.token_file,
        hosts=args.allow_host,
        started=lambda where: note(f"the console listens on {where}; Ctrl-C ends it"),
    )
