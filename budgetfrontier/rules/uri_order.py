"""The order of the URIs of a queue: directive, higher priority first, cost, then arrival, which `lifo` reverses.

A URI's rank in its queue is made of these four, as numbers, the lowest going out first; `storage.keys` packs
them so that stored ranks sort the same. A priority beyond 32 bits counts as the highest, or the lowest.
"""

from __future__ import annotations

from budgetfrontier.core.model import Directive

MAX_ORDINAL = (1 << 64) - 1
NORMAL = int(Directive.NORMAL)
PRIORITY_ZERO = 1 << 31
"""The sort key of priority 0."""
_LOWEST_PRIORITY = (1 << 32) - 1


def rank(directive: int, priority: int, cost: int, arrival: int) -> tuple[int, int, int, int]:
    """Return the rank of a URI in its queue: the one with the lowest goes out first."""
    return int(directive), inverted(priority), cost, arrival


def more_urgent(rank: tuple[int, ...], directive: int, priority: int) -> tuple[int, int, int, int] | None:
    """Return the rank of a URI that is asked for again with another directive and priority; None if it keeps its own.

    It is never made to wait longer, and keeps cost and arrival. Source: `update_priority` of qcrawl's queues.
    """
    asked = int(directive), inverted(priority)
    return (*asked, rank[2], rank[3]) if asked < rank[:2] else None


def inverted(priority: int) -> int:
    """Return the sort key of a priority, within 32 bits: higher priorities come first."""
    return min(max(PRIORITY_ZERO - priority, 0), _LOWEST_PRIORITY)


def priority_of(inverted: int) -> int:
    """Return the priority of a sort key."""
    return PRIORITY_ZERO - inverted


def arrival(ordinal: int, *, lifo: bool) -> int:
    """Return the sort key of an ordinal, used after directive, priority and cost."""
    return MAX_ORDINAL - ordinal if lifo else ordinal


def ordinal_of(arrival: int) -> int:
    """Return the ordinal of a sort key, in either order: ordinals are far below half of the largest."""
    return min(arrival, MAX_ORDINAL - arrival)
