"""The command `partitions`: where the partitions of a crawl are, and how far they are."""

from __future__ import annotations

import argparse

from budgetfrontier.tools.cli.common import Commands, add_cluster, add_command, add_format, job


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "partitions",
        partitions,
        "list the partitions of a crawl: who has them, and how far they are",
        more="Give --cluster. `lag` is the number of entries of its log that the owner has not applied yet. Exits with "
        "1 if the owner of a partition does not answer.",
    )
    parser.add_argument("job", metavar="URL", type=job, help="the crawl, as with --cluster")
    add_cluster(parser)
    add_format(parser)


def partitions(args: argparse.Namespace) -> None:
    """Refuse a job's folder, which has no partitions."""
    args.parser.error(f"{args.job} is no crawl in partitions: give --cluster kafka://HOST:PORT/CRAWL")
