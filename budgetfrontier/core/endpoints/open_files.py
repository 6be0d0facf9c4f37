"""The limit of open files of this process, `ulimit -n`."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def raise_limit(wanted: int) -> None:
    """Raise the soft limit to so many open files, as far as the hard limit permits; it is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):  # some systems refuse values below the hard limit they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def limit_raised(wanted: int) -> Iterator[None]:
    """Raise the limit within a `with` block."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_limit(wanted)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
