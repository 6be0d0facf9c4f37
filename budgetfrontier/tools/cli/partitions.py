"""The command `partitions`: where the partitions of a crawl are, and how far they are."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from budgetfrontier.tools.cli.common import (
    ClusterUrl,
    Commands,
    add_cluster,
    add_command,
    add_format,
    job,
    write_rows,
)
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator


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


def partitions(args: argparse.Namespace) -> int:
    """List the partitions. Exits for a job's folder, which has none."""
    if not isinstance(args.job, ClusterUrl):
        args.parser.error(f"{args.job} is no crawl in partitions: give --cluster kafka://HOST:PORT/CRAWL")
    from budgetfrontier.tools.cli import clusters

    return clusters.run(args, _list)


def _list(args: argparse.Namespace, operator: ClusterOperator) -> None:
    from budgetfrontier.cluster.operators.partition_rows import partition_rows

    rows = partition_rows(operator.owners, operator.owners.standings())
    end = -1 if args.format == "text" and not args.wide else None  # `closed`: told beside the table
    write_rows(args, [row[:end] for row in rows], rows[0]._fields[:end], drop=("address", "failed", "in_process"))
    if sentence := operator.used_up():
        note(sentence)
