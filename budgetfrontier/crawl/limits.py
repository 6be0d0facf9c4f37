"""What a crawl may use in its life, and how much of it is used: URIs, time, bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from budgetfrontier.settings.schema import LimitSettings


class Limit(NamedTuple):
    """One limit that is set, named as in the settings, and what is used of it: URIs, seconds, bytes."""

    name: str
    most: float
    used: float


class Limits:
    """The limits of a crawl, counted over all its runs, so that neither a crash nor a restart gives it more.

    `uris`, `seconds` and `size` (bytes) are what earlier runs have used. A pause takes no time, as in Heritrix's
    CrawlLimitEnforcer. All is O(1).
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
        """Count an answer of `size` bytes as sent; `finished`: its URI will not be tried again."""
        self.size += size
        self.uris += finished

    def tick(self, *, paused: bool) -> None:
        """Count the time since the last tick, unless the crawl was paused."""
        now = self._now()
        if not paused:
            self.seconds += now - self._ticked
        self._ticked = now

    def room(self, wanted: int, *, in_flight: int) -> int:
        """Return how many of `wanted` more URIs may be started, as far as max_uris goes."""
        most = self._settings.max_uris
        return max(min(wanted, most - self.uris - in_flight), 0) if most else wanted

    @property
    def rows(self) -> list[Limit]:
        """The limits that are set."""
        settings = self._settings
        limits = (
            Limit("max_uris", settings.max_uris, self.uris),
            Limit("max_time", settings.max_time, self.seconds),
            Limit("max_bytes", settings.max_bytes, self.size),
        )
        return [limit for limit in limits if limit.most]

    @property
    def reached(self) -> Limit | None:
        """The first limit that is reached, if any is."""
        return next((limit for limit in self.rows if limit.used >= limit.most), None)
