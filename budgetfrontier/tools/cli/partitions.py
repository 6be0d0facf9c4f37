"""The command `partitions`: where the partitions of a crawl are, and how far they are."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import format_size
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
    from budgetfrontier.cluster.operators.worker_disks import disk_sentences
    from budgetfrontier.reports.over_time import HOUR, between

    rows = partition_rows(operator.owners, operator.owners.standings())
    end = -1 if args.format == "text" and not args.wide else None  # `closed`: told beside the table
    drop = ("address", "failed", "in_process", "free")
    shown: list[list[Any]] = [list(row) for row in rows]
    for row, values in zip(rows, shown, strict=True) if args.format == "text" else ():
        values[row._fields.index("free")] = "" if row.free is None else format_size(row.free)
    write_rows(args, [row[:end] for row in shown], rows[0]._fields[:end], drop=drop)
    disks = operator.owners.disks()
    if args.format == "text" and disks and not operator.missing:
        now = time.time()
        for sentence in disk_sentences(disks, between(*operator.series(now - HOUR, now)), operator.head().totals, now):
            note(sentence)
    if sentence := operator.used_up():
        note(sentence)
