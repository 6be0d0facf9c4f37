"""Progress of the partitions, and whether the whole crawl is over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from budgetfrontier.cluster.partitions.partition import Partition
from budgetfrontier.cluster.partitions.summed_totals import merged_state, merged_summary
from budgetfrontier.cluster.quotas import quota_grants
from budgetfrontier.cluster.quotas.quota_slices import LIMITS, Amounts
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.rules.crawl_states import LIMIT

NEVER: Final = (-1, 0)
"""The origin of the last message to, or from, a partition with which there were none."""


class PartitionProgress(msgspec.Struct):
    """The progress of a partition, as its owner reports it."""

    partition: int
    epoch: int
    position: int
    owner: str
    summary: Summary
    told: dict[int, tuple[int, int]]
    """By partition: the origin of the last entry sent there."""
    heard: dict[int, tuple[int, int]]
    """By partition: the origin of the last entry that came from there."""
    room: dict[str, int] = {}
    """By total, as its setting is called: the rest beyond the URIs that are out; below zero if more was used."""
    left: dict[str, int] | None = None
    """By total, if this partition is the treasurer: what may still be granted. None also while it waits for others."""
    time: float = 0.0
    """The time of its broker as of the report (epoch seconds)."""
    log: str = ""
    """The identity of its log, if the bus has any."""
    asked: float = 0.0
    """When a crawler asked its worker for URIs last, or an owner before, by the same clock; 0.0 if none did."""


to_standings: Callable[[Any], list[PartitionProgress]] = converter(list[PartitionProgress])


def standing_of(
    worker: str, partition: Partition, *, unasked: float | None = None, asked_before: float = 0.0
) -> PartitionProgress:
    """Return the standing of a partition that is open in this thread of a worker.

    `unasked` are the seconds since a crawler asked the worker for URIs, if any did; `asked_before` is when it asked an
    owner before (epoch seconds of the broker's clock).
    """
    limited, money = partition.spending.state.slice.limited, partition.spending.state.treasury
    return PartitionProgress(
        partition.number,
        partition.epoch,
        partition.position,
        worker,
        partition.frontier.summary(),
        {number: origin for number in range(partition.partitions) if (origin := partition.told(number)) != NEVER},
        {number: origin for number in range(partition.partitions) if (origin := partition.heard(number)) != NEVER},
        _named(limited, partition.spending.room),
        None if money is None or money.uncounted else _named(limited, quota_grants.left(money)),
        partition.now(),
        partition.place.log,
        asked_before if unasked is None else max(asked_before, partition.now() - unasked),
    )


def _named(limited: tuple[bool, bool], amounts: Amounts) -> dict[str, int]:
    rows = zip(LIMITS, limited, amounts, strict=True)
    return {name: amount for name, is_limited, amount in rows if is_limited}


def crawl_state(standings: Collection[PartitionProgress]) -> CrawlState:
    """Return the state of a crawl from the standings of all its partitions.

    It is RUNNING while anything is under way from one partition to another, even if all are FINISHED. It is PAUSED if
    a total is used up, and PAUSING before, while URIs are out.
    """
    state = merged_state(one.summary.state for one in standings)
    if state in (CrawlState.FINISHED, CrawlState.NEW) and is_under_way(standings):
        return CrawlState.RUNNING
    if state is CrawlState.RUNNING and limit_reached(standings) is not None:
        return CrawlState.PAUSING if any(one.summary.in_process for one in standings) else CrawlState.PAUSED
    return state


def crawl_summary(standings: Collection[PartitionProgress]) -> Summary:
    """Return the sums of the counters of all partitions, with the state of the crawl."""
    summary = merged_summary([one.summary for one in standings])
    summary.state = crawl_state(standings)
    if summary.pause_reason is None and summary.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        summary.pause_reason = LIMIT
    return summary


def is_under_way(standings: Collection[PartitionProgress]) -> bool:
    """Return whether an entry was sent to a partition and has not arrived there."""
    by_number = {one.partition: one for one in standings}
    return any(
        origin > (by_number[there].heard.get(one.partition, NEVER) if there in by_number else NEVER)
        for one in standings
        for there, origin in one.told.items()
    )


def limit_reached(standings: Collection[PartitionProgress]) -> str | None:
    """Return the setting whose total is used up by completed URIs and by those that are out; None if none is."""
    left = next((one.left for one in standings if one.left is not None), None)
    if left is None or is_under_way(standings):
        return None
    for name, amount in left.items():
        if all(name in one.room for one in standings) and amount + sum(one.room[name] for one in standings) <= 0:
            return name
    return None
