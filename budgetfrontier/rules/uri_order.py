"""The order of the URIs of a queue: by directive, priority and cost, then by arrival, which `lifo` reverses."""

from __future__ import annotations

MAX_ORDINAL = (1 << 64) - 1


def arrival(ordinal: int, *, lifo: bool) -> int:
    """Return what the URI that was admitted with an ordinal is sorted by, behind directive, priority and cost."""
    return MAX_ORDINAL - ordinal if lifo else ordinal


def ordinal_of(arrival: int) -> int:
    """Return the ordinal that an arrival was made of, in either order: ordinals stay far below half of the largest."""
    return min(arrival, MAX_ORDINAL - arrival)
