"""The disks of workers as their summaries have them: what is left of each, and when it is full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from budgetfrontier.core.model import Summary
from budgetfrontier.core.units import describe_duration
from budgetfrontier.reports import over_time
from budgetfrontier.rules.forecasts import BYTES, DISK, Limit
from budgetfrontier.storage.disks import FolderDisk

_NAMED = 3
"""Workers in the name of a disk that they share."""


def limits_of_disks(found: Mapping[str, FolderDisk], scheduled: int) -> dict[str, Limit]:
    """Return a limit for each disk that workers have their folders on, by what these took for each URI so far.

    `scheduled` are the URIs that were scheduled in the whole crawl: each disk grows by its part of them.
    """
    disks: dict[str, list[str]] = {}
    for worker in sorted(found):
        disks.setdefault(found[worker].disk, []).append(worker)
    return {
        _name(workers): Limit(
            min(found[worker].free for worker in workers),
            ("discovered",),
            BYTES,
            (sum(found[worker].grown for worker in workers) / max(scheduled, 1),),
        )
        for workers in disks.values()
    }


def _name(workers: Sequence[str]) -> str:
    more = f" and {len(workers) - _NAMED} more" if len(workers) > _NAMED else ""
    return f"{DISK} of {', '.join(workers[:_NAMED])}{more}"


def disk_sentences(
    found: Mapping[str, FolderDisk], happened: over_time.Between, totals: Summary, now: float
) -> Iterator[str]:
    """Yield a sentence for each disk of workers: what is left of it, and when it is full at the crawl's last pace."""
    limits = limits_of_disks(found, totals.scheduled)
    for one in over_time.forecast_rows(happened, totals, None, limits, now=now):
        if one.bound.startswith(DISK):
            full = f"; full after {describe_duration(ceil(one.seconds))} ({one.sure})" if one.seconds else ""
            yield f"{one.bound}: {one.why}{full}"
