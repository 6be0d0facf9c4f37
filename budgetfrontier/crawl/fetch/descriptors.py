"""How many connections the open files of a process allow: a crawl that runs out of them cannot write either."""

from __future__ import annotations

import resource
from contextlib import suppress

_IDLE = 1000  # connections kept open for the next fetch, 15 s each
_OTHERS = 150  # files that are no connections: the frontier's, logs, WARC files, and two for each of 64 lookups
_ENOUGH = 1_000_000


def most_fetches(wanted: int) -> int:
    """Return how many fetches may be made at a time, of those `wanted`; at least one.

    The soft limit on open files (`ulimit -n`) is raised for them, as far as this process may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * (wanted + _OTHERS)  # as many connections may be idle
    if resource.RLIM_INFINITY != soft < needed:
        with suppress(ValueError, OSError):  # some systems do not tell how far that is
            most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(min(wanted, _connections() // 2), 1)


def most_idle(fetches: int) -> int:
    """Return how many idle connections may be kept beside those of so many fetches; at least one."""
    return max(min(_IDLE, _connections() - fetches), 1)


def _connections() -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return _ENOUGH
    return files - min(_OTHERS, files // 2)
