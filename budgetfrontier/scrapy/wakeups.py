"""Wake-ups of Scrapy's engine, which asks for requests after its own events, and otherwise only every five seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

try:
    from scrapy.utils.asyncio import call_later
except ImportError:  # Scrapy 2.13

    def call_later(delay: float, function: Callable[[], object]) -> Any:
        from twisted.internet import reactor

        return reactor.callLater(delay, function)


__all__ = ["Wakeup", "call_later"]

LONGEST = 3600.0  # seconds; nothing is lost by looking once an hour


class Wakeup:
    """Calls a function once, at the earliest of the times that it was set to. `stop` ends it for good."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._call: Any = None
        self._due = 0.0
        self._stopped = False

    def set(self, delay: float) -> None:
        """Call in `delay` seconds at the latest."""
        due = time.monotonic() + min(delay, LONGEST)
        if self._stopped or (self._call is not None and self._due <= due):
            return
        if self._call is not None:
            self._call.cancel()
        self._due = due
        self._call = call_later(max(due - time.monotonic(), 0.0), self._ring)

    def stop(self) -> None:
        """Never call again."""
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _ring(self) -> None:
        self._call = None
        self._function()
