"""Log lines that do not repeat: a failure once until the crawl works again, lost URLs once a minute."""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import Any

from budgetfrontier.rules import queue_keys
from budgetfrontier.server.crawls import DEFAULT

MOST_CRAWLS = 1000
"""Crawls with remembered failures."""
PAUSE = 60.0
"""Seconds without a line about lost URLs of a crawl after each such line."""
_LARGE = 1 << 19
"""Bytes of a URL with its metadata from which on these are the reason why it cannot be stored."""

log = logging.getLogger("budgetfrontier.urlfrontier")


class FailureLog:
    """The lines that were logged."""

    def __init__(self) -> None:
        self._failures: dict[str, set[str]] = {}
        """By crawlID: the effects of its failures that were logged since it was all right."""
        self._lost: dict[str, float] = {}
        """By crawlID: when it was logged that a URL was lost."""

    def all_right(self, crawl_id: str) -> None:
        """Note that a crawl has done its work: its next failure is logged."""
        if self._failures:
            self._failures.pop(crawl_id, None)

    def failed(self, crawl_id: str, effect: str, error: BaseException) -> None:
        """Log the failure of a crawl, once until it is all right again."""
        if len(self._failures) > MOST_CRAWLS:
            self._failures.clear()
        logged = self._failures.setdefault(crawl_id, set())
        if effect not in logged:
            logged.add(effect)
            _warn(crawl_id, f"{effect}: {error}")

    def no_crawl(self, crawl_id: str, error: BaseException) -> None:
        """Log that URLs with an invalid crawlID are lost; once a minute for all of them."""
        if self._is_due(""):
            _warn(crawl_id[:50], f"URLs are SKIPPED: {error}; others are not logged for a minute")

    def lost(self, crawl_id: str, info: Any) -> None:
        """Log that a URL is not taken, unless it is none, which crawlers find all the time."""
        why = _why_lost(info)
        if why and self._is_due(crawl_id or DEFAULT):
            _warn(crawl_id, f"{info.url[:200]} is SKIPPED: {why}; others are not logged for a minute")

    def _is_due(self, name: str) -> bool:
        now = monotonic()
        if now < self._lost.get(name, -inf) + PAUSE:
            return False
        if len(self._lost) > MOST_CRAWLS:
            self._lost.clear()
        self._lost[name] = now
        return True


def _why_lost(info: Any) -> str | None:
    """Return why a URLInfo is not taken; None if its URL is none."""
    if info.key and queue_keys.queue_key_bytes(info.key) is None:
        return f"its key has more than {queue_keys.MAX_QUEUE_KEY} bytes, or a character that keys cannot have"
    if info.ByteSize() > _LARGE:
        return f"with its metadata it has {info.ByteSize()} bytes, too many to be stored"
    return None


def _warn(crawl_id: str, text: str) -> None:
    name = crawl_id or DEFAULT
    log.warning("crawl %r: %s", name, text, extra={"crawl": name})
