"""Limits on connections from the limit on open files: a crawl that exhausts it cannot write its outputs either."""

from __future__ import annotations

import resource

from budgetfrontier.core.endpoints.open_files import raise_limit
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.host_allowlist import SCRAPES

_IDLE = 1000  # connections kept open for the next fetch, 15 s each
_OTHERS = 150 + SCRAPES  # files besides connections: the frontier, logs, WARC files, two for each of 64 DNS lookups
_ENOUGH = 1_000_000


def most_fetches(wanted: int) -> int:
    """Return how many of the `wanted` concurrent fetches the limit on open files allows; at least one.

    Raises the soft limit (`ulimit -n`) as far as needed and as the hard limit permits.
    """
    raise_limit(2 * (wanted + _OTHERS))  # for each fetch, one idle connection may be kept
    return max(min(wanted, _connections() // 2), 1)


def shortage(wanted: int, fetches: int) -> str | None:
    """Return a warning that only so many fetches are allowed of those wanted; None if that is all."""
    if fetches >= wanted:
        return None
    return (
        f"this process may open too few files (ulimit -n) for a fetch.concurrency of {wanted:,}: "
        f"it fetches {counted(fetches, 'page')} at a time"
    )


def most_idle(fetches: int) -> int:
    """Return how many idle connections may be kept besides those of `fetches` concurrent fetches; at least one."""
    return max(min(_IDLE, _connections() - fetches), 1)


def _connections() -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _ENOUGH
    return files - min(_OTHERS, files // 2)
