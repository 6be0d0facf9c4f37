"""`leases`: list the URIs that are out, with their age."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import format_time
from budgetfrontier.core.vocabulary import LEASE_FIELDS
from budgetfrontier.tools.cli import common, name_arguments
from budgetfrontier.tools.cli.common import Commands, add_command, add_job

if TYPE_CHECKING:
    from budgetfrontier.core.model import StoredLease


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "leases",
        leases,
        "list the leases: which URIs are being fetched, and since when",
        more="As of the last commit: what was leased and finished since is not listed. `deliveries` counts how often "
        "the URI was handed out, `deadline` is when it is handed out again, `landed` tells that its download is over.",
    )
    add_job(parser, cluster=True)
    parser.add_argument(
        "--older-than", type=common.duration, default=None, metavar="AGE", help="only leases of this age (10m, 1h30m)"
    )
    parser.add_argument("--queue", metavar="KEY", help="only leases of this queue")
    common.add_listing(parser, columns=LEASE_FIELDS, sort="age")


def leases(args: argparse.Namespace) -> None:
    """List leases, the oldest first."""
    from budgetfrontier.storage.reader import Reader

    with Reader(common.frontier_path(args.job)) as reader:
        key = None if args.queue is None else name_arguments.queue_to_show(reader, args.job, args.queue).queue
        found = [lease for lease in reader.leases() if key in (None, lease.queue)]
    write_leases(args, found)


def write_leases(args: argparse.Namespace, found: Sequence[StoredLease], *, is_whole: bool = True) -> None:
    """Print leases. That there are none is said if these are those of the whole crawl."""
    from budgetfrontier.reports import lease_rows

    now = time.time()
    rows: Iterable[dict[str, Any]] = lease_rows.lease_rows(found, now)
    if args.older_than is not None:
        rows = (row for row in rows if row["age"] >= args.older_than)
    if is_whole:
        rows = name_arguments.noting_none(rows, "no lease matches" if found else "no URI is leased")
    rows = common.page(rows, args, key=lambda row: _sort_key(row[args.sort]))
    if args.format == "text":
        rows = (lease_rows.for_people(row, now, _when(row["began"])) for row in rows)
    common.write_rows(args, map(itemgetter(*LEASE_FIELDS), rows), LEASE_FIELDS, drop=lease_rows.DROP)


def _sort_key(value: Any) -> tuple[bool, Any]:
    """Return a key that sorts unknown values before all others."""
    return value is not None, value if value is not None else 0


def _when(epoch: float | None) -> str:
    return "-" if epoch is None else format_time(epoch)
