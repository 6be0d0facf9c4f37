"""The pages of a job: each module reads the values of its page, and the template of its name shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query

GROUPS = ("look", "problems", "change")
"""The groups of the navigation, in their order."""

Build = Callable[[ConsoleJob, Query], dict[str, Any]]


def of_scan(job: ConsoleJob) -> dict[str, Any]:
    """Return the values of the note on the latest scan; a crawl in partitions has none."""
    if not job.is_folder:
        return {"as_of": None, "scan_progress": None, "scan_error": "", "waits_for_scan": False}
    scanned = job.scanned()
    return {
        "as_of": scanned.when if scanned else None,
        "scan_progress": job.scans.progress,
        "scan_error": job.scans.error,
        "waits_for_scan": scanned is None,
    }


def from_row(query: Query, start: int, *, more: bool) -> dict[str, Any]:
    """Return the values of the links to the page before and after the one that begins at a row."""
    return {
        "next": {"start": start + query.rows} if more else None,
        "first": {"start": max(start - query.rows, 0) or None} if start else None,
    }


class ConsolePage(NamedTuple):
    """A page: its path below that of the job, its title, and the function that reads its values.

    `every` is the number of seconds after which a page that is open looks whether it has changed; 0: it never does.
    """

    path: str
    title: str
    template: str
    build: Build
    every: float = 0.0
    listed: bool = True
    group: str = "look"
    """The group of the navigation that has it, one of GROUPS."""
    steers: bool = False
    """Whether it is only for those who may change the job."""
    foresees: bool = False
    """Whether it has the forecast of a job, so that it waits a while for a scan of the queues that this needs."""
