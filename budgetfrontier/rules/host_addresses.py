"""The address that a host is known by: one of those that it may have, so that its queue does not change with each."""

from __future__ import annotations

from typing import Final

VALID_FOR: Final = 6 * 3600
"""Seconds for which a host keeps its address, whatever others are reported: as in Heritrix."""


def replaces(since: int | None, now: float) -> bool:
    """Return whether a reported address becomes that of its host, which has one `since` then; None: it has none."""
    return since is None or now >= since + VALID_FOR
