"""Closing of the spider by the scheduler."""

from __future__ import annotations

from typing import Any

from scrapy.utils.defer import deferred_from_coro

from budgetfrontier.scrapy.in_flight import slot_of
from budgetfrontier.scrapy.wakeups import call_later


class SpiderCloser:
    """A closer of a crawler's spider: once, with the first reason given, and never during a step of Scrapy's engine."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._reason: str | None = None

    def close_soon(self, reason: str) -> None:
        """Close the spider in the next iteration of the event loop."""
        if self._reason is not None:
            return
        self._reason = reason
        if slot_of(self._crawler) is None:
            self._close()
        else:
            call_later(0.0, self._close)

    def _close(self) -> None:
        engine = self._crawler.engine
        if hasattr(engine, "close_spider_async"):
            deferred_from_coro(engine.close_spider_async(reason=self._reason))
        else:  # Scrapy 2.13
            engine.close_spider(self._crawler.spider, self._reason)
