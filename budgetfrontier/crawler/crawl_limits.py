"""Limits on a whole crawl, and how much of them is used: URIs, time, bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from budgetfrontier.settings.schema import LimitSettings


class CrawlLimit(NamedTuple):
    """A limit by its name in the settings: its value, and how much of it is used (URIs, seconds or bytes)."""

    name: str
    most: float
    used: float


class CrawlLimits:
    """The limits of a crawl, counted over all its runs, so that a crash or restart does not reset them.

    `uris`, `seconds` and `size` (bytes) are the amounts used by earlier runs. Time during which the crawl is paused
    does not count, as in Heritrix's CrawlLimitEnforcer. All methods are O(1).
    """

    def __init__(
        self,
        settings: LimitSettings,
        *,
        uris: int = 0,
        seconds: float = 0.0,
        size: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._now = settings, now
        self.uris, self.seconds, self.size = uris, seconds, size
        self._ticked = now()

    def count(self, size: int, *, finished: bool) -> None:
        """Count a response of `size` bytes as sent; `finished`: its URI will not be tried again."""
        self.size += size
        self.uris += finished

    def tick(self, *, paused: bool) -> None:
        """Count the time since the last tick, unless the crawl was paused."""
        now = self._now()
        if not paused:
            self.seconds += now - self._ticked
        self._ticked = now

    def room(self, wanted: int, *, in_flight: int) -> int:
        """Return how many of `wanted` further URIs max_uris allows to start, beyond those in flight."""
        most = self._settings.max_uris
        return max(min(wanted, most - self.uris - in_flight), 0) if most else wanted

    @property
    def rows(self) -> list[CrawlLimit]:
        """The limits that are set (not 0)."""
        settings = self._settings
        limits = (
            CrawlLimit("max_uris", settings.max_uris, self.uris),
            CrawlLimit("max_time", settings.max_time, self.seconds),
            CrawlLimit("max_bytes", settings.max_bytes, self.size),
        )
        return [limit for limit in limits if limit.most]

    @property
    def reached(self) -> CrawlLimit | None:
        """The first limit that is reached; None if none is."""
        return next((limit for limit in self.rows if limit.used >= limit.most), None)
