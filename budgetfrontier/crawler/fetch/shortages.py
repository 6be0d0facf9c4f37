"""Failures of this machine, which say nothing of a site: it is out of file descriptors, memory or buffers."""

from __future__ import annotations

import errno
import logging
import os
import socket
from functools import cache

from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.errors import MORE_FILES, NO_FILES

REST = 10.0
"""Seconds after which a URI is tried again if this machine could not fetch it."""
_SHORTAGES = frozenset({*NO_FILES, errno.ENOMEM, errno.ENOBUFS})

log = logging.getLogger("budgetfrontier.crawl")


def put_back(error: BaseException) -> PutBack | None:
    """Return a PutBack if a fetch failed for a shortage of this machine, which is logged; else None."""
    lacking = _shortage(error)
    if lacking is None:
        return None
    _log_once(lacking)
    return PutBack(REST, f"this machine: {os.strerror(lacking)}")


def _shortage(error: BaseException | None) -> int | None:
    """Return the system's error number of a shortage; None for any other failure."""
    while error is not None:
        if isinstance(error, MemoryError):
            return errno.ENOMEM
        if isinstance(error, socket.gaierror):  # it may be a shortage, or a name server that does not answer
            return _no_file_can_be_opened()
        if isinstance(error, OSError) and error.errno in _SHORTAGES:
            return error.errno
        error = error.__cause__
    return None


def _no_file_can_be_opened() -> int | None:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno if error.errno in _SHORTAGES else None
    return None


@cache
def _log_once(lacking: int) -> None:
    remedy = MORE_FILES if lacking in NO_FILES else "free some memory"
    log.warning(
        "%s: URIs that could not be fetched for that go back into their queues, uncharged; %s, or lower "
        "fetch.concurrency",
        os.strerror(lacking),
        remedy,
    )
