"""The partitions of a crawl as a list: who has each, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress, limit_reached
from budgetfrontier.core.model import CrawlState


class PartitionRow(NamedTuple):
    """A partition in the list of them. If its owner does not answer, only its number, owner and epoch are known."""

    partition: int
    owner: str = ""
    address: str = ""
    epoch: int | None = None
    position: int | None = None
    lag: int | None = None
    """Entries of the log that its owner has not applied yet; None if the end of the log is not known."""
    state: str | None = None
    queues: int | None = None
    queued: int | None = None
    in_process: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    spent: int | None = None
    age: float | None = None
    """Seconds since the owner has published these figures, or others since these were new, if it does not answer."""
    free: int | None = None
    """The free bytes of the disk of its owner's folder, as the owner has published them last."""
    closed: str = ""
    """Why the worker that it was given to does not serve it; "" if it does, or says nothing."""


def partition_rows(owners: CrawlOwners, standings: Mapping[int, PartitionProgress]) -> list[PartitionRow]:
    """Return a row for each partition, whether its owner has answered or not."""
    known, count, disks = owners.frontier.owners(), owners.partitions, owners.disks()
    ends = {} if owners.ends is None else owners.ends(count)
    closed = owners.closed() if owners.missing or owners.ages else {}
    limited = not owners.lost and limit_reached(standings.values()) is not None
    rows = []
    for number in range(count):
        row, owner, found = PartitionRow(number), known.get(number), standings.get(number)
        if owner is not None:
            row = row._replace(owner=owner.worker, address=owner.address, epoch=owner.epoch)
        if found is not None:
            totals, state = found.summary, found.summary.state
            if limited and state is CrawlState.RUNNING:
                state = CrawlState.PAUSING if totals.in_process else CrawlState.PAUSED
            row = row._replace(
                owner=found.owner,
                epoch=found.epoch,
                position=found.position,
                lag=max(ends[number] - found.position, 0) if number in ends else None,
                state=str(state),
                queues=sum(totals.queues.values()),
                queued=totals.queued,
                in_process=totals.in_process,
                succeeded=totals.succeeded,
                failed=totals.failed,
                spent=totals.expenditure,
                age=owners.ages.get(number),
            )
        if row.owner in disks:
            row = row._replace(free=disks[row.owner].free)
        if found is None or row.age is not None:
            row = row._replace(closed=closed.get(number, ""))
        rows.append(row)
    return rows
