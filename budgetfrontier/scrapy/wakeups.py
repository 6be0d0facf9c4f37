"""Timers. Scrapy's engine asks for requests after its own events, and otherwise only every five seconds."""

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

MAX_DELAY = 3600.0  # seconds; a call too early does no harm


class Wakeup:
    """A timer that calls a function once, at the earliest of the times it was set to, until it is stopped for good."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._call: Any = None
        self._due = 0.0
        self._stopped = False

    def set(self, delay: float) -> None:
        """Call the function in `delay` seconds, or earlier if it is due earlier."""
        due = time.monotonic() + min(delay, MAX_DELAY)
        if self._stopped or (self._call is not None and self._due <= due):
            return
        if self._call is not None:
            self._call.cancel()
        self._due = due
        self._call = call_later(max(due - time.monotonic(), 0.0), self._fire)

    def stop(self) -> None:
        """Cancel the call, and ignore all later calls of `set`."""
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _fire(self) -> None:
        self._call = None
        self._function()
