"""The order of the URIs of a queue: directive, higher priority first, precedence, then arrival, which `lifo` reverses.

A URI's rank in its queue is made of these four, as numbers, the lowest going out first; `storage.keys` packs
them so that stored ranks sort the same. The precedence of a URI is its cost, unless a policy or its caller sets one:
then the rank has the cost as a fifth number. A priority beyond 32 bits counts as the highest, or the lowest.
"""

from __future__ import annotations

from budgetfrontier.core.model import Directive

MAX_ORDINAL = (1 << 64) - 1
NORMAL = int(Directive.NORMAL)
PRIORITY_ZERO = 1 << 31
"""The sort key of priority 0."""
_LOWEST_PRIORITY = (1 << 32) - 1
MAX_PRECEDENCE = 127
"""The highest precedence that a URI may have, other than its cost."""


def rank(directive: int, priority: int, cost: int, arrival: int, precedence: int | None = None) -> tuple[int, ...]:
    """Return the rank of a URI in its queue: the one with the lowest goes out first."""
    start = int(directive), inverted(priority)
    return (*start, cost, arrival) if precedence is None else (*start, precedence, arrival, cost)


def more_urgent(rank: tuple[int, ...], directive: int, priority: int) -> tuple[int, ...] | None:
    """Return the rank of a URI that is asked for again with another directive and priority; None if it keeps its own.

    It is never made to wait longer, and keeps all else. Source: `update_priority` of qcrawl's queues.
    """
    asked = int(directive), inverted(priority)
    return (*asked, *rank[2:]) if asked < rank[:2] else None


def bounded_precedence(precedence: int) -> int:
    """Return a precedence of a URI as it is stored: 0 to 127, as in Heritrix."""
    return min(max(precedence, 0), MAX_PRECEDENCE)


def inverted(priority: int) -> int:
    """Return the sort key of a priority, within 32 bits: higher priorities come first."""
    return min(max(PRIORITY_ZERO - priority, 0), _LOWEST_PRIORITY)


def priority_of(inverted: int) -> int:
    """Return the priority of a sort key."""
    return PRIORITY_ZERO - inverted


def arrival(ordinal: int, *, lifo: bool) -> int:
    """Return the sort key of an ordinal, used after directive, priority and precedence."""
    return MAX_ORDINAL - ordinal if lifo else ordinal


def ordinal_of(arrival: int) -> int:
    """Return the ordinal of a sort key, in either order: ordinals are far below half of the largest."""
    return min(arrival, MAX_ORDINAL - arrival)
