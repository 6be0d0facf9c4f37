"""The log of the servers of the console and of the metrics of a crawl."""

from __future__ import annotations

import logging

SERVER_LOG = logging.getLogger("budgetfrontier.server")
"""The log of a server: errors of its own. aiohttp would log each request that is not HTTP, with a traceback."""


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return getattr(error, "code", None) != 400  # aiohttp's HttpProcessingError, which anybody can cause


SERVER_LOG.addFilter(_is_ours)
