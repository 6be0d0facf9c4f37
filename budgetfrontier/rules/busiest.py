"""The queues that spent and fetched most, found with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from operator import itemgetter

MOST = 1000
"""Queues that are kept of an hour or a day: half of them for what they spent, half for what they fetched."""
ROOM = 16 << 10
"""Queues that are counted at the same time, about 150 bytes each."""

Counts = dict[int, tuple[int, int]]
"""By queue id: what it spent, and the attempts that were charged to it."""


def _spent(item: tuple[int, tuple[int, int]]) -> int:
    return item[1][0]


def _fetched(item: tuple[int, tuple[int, int]]) -> int:
    return item[1][1]


def busiest(counts: Counts, most: int = MOST) -> Counts:
    """Return the `most` queues at most, half of which spent most, and half fetched most, the busiest first."""
    if len(counts) > most:
        kept = dict(nlargest(most // 2, counts.items(), key=_spent))
        for queue_id, count in nlargest(most, counts.items(), key=_fetched):
            if len(kept) >= most:
                break
            kept[queue_id] = count
        counts = kept
    return dict(sorted(counts.items(), key=itemgetter(1), reverse=True))


def without_smallest(counts: Counts, room: int) -> tuple[Counts, int]:
    """Return the busiest queues, half of `room` at the most, and the most that one of the others may have fetched.

    This is lossy counting (Manku and Motwani, 2002): a queue that was dropped and is counted again starts from zero, so
    that a count is too low by at most the sum of what was returned each time. If no more queues than half of `room` are
    fetched from, nothing is dropped and all counts are exact.
    """
    kept = busiest(counts, room // 2)
    return kept, max((count[1] for queue_id, count in counts.items() if queue_id not in kept), default=0)


def merged(parts: Iterable[tuple[Counts, int]]) -> tuple[Counts, int]:
    """Return the busiest queues of several periods together, and the most by which a count may be too low.

    Each part is the busiest queues of a period, and the most by which a count of it may be too low. A queue that is
    none of the busiest of a period, if there were more, may have been fetched from as often as the least of them.
    """
    sums: Counts = {}
    low = 0
    for part, missed in parts:
        for queue_id, (spent, fetched) in part.items():
            before = sums.get(queue_id, (0, 0))
            sums[queue_id] = before[0] + spent, before[1] + fetched
        low += missed + (min(fetched for _, fetched in part.values()) if len(part) >= MOST else 0)
    return busiest(sums), low
