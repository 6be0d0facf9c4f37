"""The pace of a shared frontier, in a process whose requests wait between their lease and their fetch.

Delays count from the end of a fetch, wherever it was. `min_interval` counts from the lease: a request that has waited
here is fetched later, so that the next one of its queue has to be later, too.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from budgetfrontier.scrapy.in_flight import RequestState
from budgetfrontier.settings import Settings, sheets


class Pace:
    """The settings of the server, without its adjustments."""

    def __init__(self, settings: Settings) -> None:
        self._effective = sheets.effective(settings)
        self.most_at_once = self._effective.base.per_queue_concurrency
        """The number of requests of a queue that may be out at a time."""
        self._has_intervals = self._effective.base.min_interval > 0 or any(
            override.set.get("politeness.min_interval") for override in sheets.layers(settings, ())[0]
        )

    def rest(self, state: RequestState, request: Any) -> float:
        """Return the seconds that the queue of a request has to wait because of its interval since the fetch began."""
        if not self._has_intervals or state.landed_at is None:
            return 0.0
        seconds = state.seconds(request)
        if seconds is None:  # it was not fetched
            return 0.0
        lease = state.lease
        interval = self._effective.for_uri(lease.uri.url, lease.queue, lease.uri.source).min_interval
        return max(0.0, state.landed_at - seconds + interval - monotonic())
