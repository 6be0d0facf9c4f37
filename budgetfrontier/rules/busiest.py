"""The queues that spent and fetched most, found with bounded memory, and how far their counts are certain.

No count is too high. A count that may be too low is an estimate, shown with its upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

MOST = 1000
"""Queues that are kept of an hour or a day: half of them for the cost spent, half for the fetches."""
ROOM = 16 << 10
"""Queues that are counted at the same time, about 150 bytes each."""

Amounts = tuple[int, int]
"""The amount that a queue spent, and the number of attempts that were charged to it."""
Counts = dict[int, Amounts]
"""The amounts of queues by their ids."""
NOTHING: Amounts = (0, 0)


class Busy(NamedTuple):
    """The busiest queues of a period."""

    counts: Counts
    low: Amounts = NOTHING
    """The most that may be missing in their counts."""
    others: Amounts = NOTHING
    """The most that any other queue may have."""


def _spent(item: tuple[int, Amounts]) -> int:
    return item[1][0]


def _fetched(item: tuple[int, Amounts]) -> int:
    return item[1][1]


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of amounts."""
    return one[0] + other[0], one[1] + other[1]


def _largest(amounts: Iterable[Amounts]) -> Amounts:
    spent = fetched = 0
    for one in amounts:
        spent, fetched = max(spent, one[0]), max(fetched, one[1])
    return spent, fetched


def busiest(counts: Counts, most: int = MOST) -> Busy:
    """Return at most `most` queues, half of them with the most spent, half with the most fetched, the busiest first."""
    kept = counts
    if len(counts) > most:
        kept = dict(nlargest(most // 2, counts.items(), key=_spent))
        for queue_id, count in nlargest(most, counts.items(), key=_fetched):
            if len(kept) >= most:
                break
            kept[queue_id] = count
    others = _largest(count for queue_id, count in counts.items() if queue_id not in kept)
    return Busy(dict(sorted(kept.items(), key=itemgetter(1), reverse=True)), others=others)


def without_smallest(counts: Counts, room: int) -> tuple[Counts, Amounts]:
    """Return the busiest queues, half of `room` at the most, and the highest counts among the others.

    This is lossy counting (Manku and Motwani, 2002): a queue that was dropped and is counted again starts from zero, so
    that a count is too low by at most the sum of the returned counts. If no more queues than half of `room` are
    fetched from, nothing is dropped and all counts are exact.
    """
    found = busiest(counts, room // 2)
    return found.counts, found.others


def merged(parts: Iterable[Busy], most_queues: int = MOST) -> tuple[Busy, Counts]:
    """Return the busiest queues of several periods together, and for each of them the most that its counts may be."""
    sums: Counts = {}
    above: Counts = {}
    unlisted = NOTHING  # the most that a queue may have that no period lists
    for counts, low, others in parts:
        unlisted = plus(unlisted, others)
        for queue_id, amounts in counts.items():
            sums[queue_id] = plus(sums.get(queue_id, NOTHING), amounts)
            less = above.get(queue_id, NOTHING)
            above[queue_id] = less[0] + low[0] - others[0], less[1] + low[1] - others[1]
    most = {queue_id: plus(amounts, plus(unlisted, above[queue_id])) for queue_id, amounts in sums.items()}
    counts = busiest(sums, most_queues).counts
    low = _largest((most[id_][0] - spent, most[id_][1] - fetched) for id_, (spent, fetched) in counts.items())
    others = _largest([unlisted, *(amounts for queue_id, amounts in most.items() if queue_id not in counts)])
    return Busy(counts, low, others), {queue_id: most[queue_id] for queue_id in counts}
