"""The settings that are fixed when a crawl in partitions begins: a worker with others has no claim to a partition."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from budgetfrontier.settings import Settings
from budgetfrontier.settings.differences import changes

_FIXED: Final = (
    "frontier.queue_assignment_policy",
    "frontier.canonicalization",
    "frontier.canonicalization_policy",
    "frontier.keep_urls",
    "frontier.duplicates",
    "cluster.partitions",
)
"""With another assignment or number, a host would be in two partitions; the frontier itself refuses the others."""


def in_partition(settings: Settings) -> Settings:
    """Return the settings of a crawl as its partitions have them.

    A partition has nothing left now and then, while others go on: that is no finish at which to pause.
    """
    if not settings.frontier.pause_at_finish:
        return settings
    return replace(settings, frontier=replace(settings.frontier, pause_at_finish=False))


def refusal(stored: Settings, claimed: Settings) -> str | None:
    """Return why settings cannot take the place of those that a crawl was begun with; None if they can."""
    fixed = tuple(f"{name}." for name in _FIXED)
    differing = [str(change) for change in changes(stored, claimed) if f"{change.name}.".startswith(fixed)]
    if not differing:
        return None
    return (
        f"the crawl {stored.crawl!r} was begun with other settings, which are fixed: {'; '.join(differing)}. Start all "
        "workers with the settings of the crawl, or begin one under another name"
    )
