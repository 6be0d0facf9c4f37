"""The standing of partitions: how far each is, from which follows whether the crawl is over."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from budgetfrontier.cluster.partition import Partition
from budgetfrontier.cluster.totals import merged_state
from budgetfrontier.model import CrawlState, Summary


class Standing(msgspec.Struct):
    """The standing of a partition, as its owner tells it."""

    partition: int
    epoch: int
    position: int
    owner: str
    summary: Summary
    told: dict[int, tuple[int, int]]
    """By partition: the origin of the last URIs that were sent there."""
    heard: dict[int, tuple[int, int]]
    """By partition: the origin of the last URIs that have come from there."""
    found_elsewhere: int
    sent_elsewhere: int


def standing_of(partition: Partition) -> Standing:
    """Return the standing of a partition that is open in this thread."""
    state = partition.state
    return Standing(
        partition.number,
        state.epoch,
        state.position,
        state.owner,
        partition.frontier.summary(),
        dict(state.told),
        dict(state.heard),
        partition.found_elsewhere,
        partition.sent_elsewhere,
    )


def crawl_state(standings: Collection[Standing]) -> CrawlState:
    """Return the state of a crawl from the standings of all its partitions.

    It is RUNNING while URIs are under way from one partition to another, even if all are FINISHED.
    """
    state = merged_state(one.summary.state for one in standings)
    by_number = {one.partition: one for one in standings}
    under_way = any(
        origin > (by_number[there].heard.get(one.partition, (-1, 0)) if there in by_number else (-1, 0))
        for one in standings
        for there, origin in one.told.items()
    )
    return CrawlState.RUNNING if under_way and state in (CrawlState.FINISHED, CrawlState.NEW) else state
