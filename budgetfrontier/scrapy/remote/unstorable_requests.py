"""Requests that no server can store: they stay with their process, in a frontier in its memory.

It has the settings of the shared frontier, so that budgets and delays hold in this process; the delays of other
processes are not known to it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from budgetfrontier.core.model import CrawlUri, Finish, Lease
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import LeaseExpired
from budgetfrontier.settings import Settings

_TTL = 1e9  # seconds: they end with the process


class KeptRequests:
    """The frontier of these requests, opened with the first of them."""

    def __init__(self, settings: Settings, *, program: str) -> None:
        frontier = msgspec.structs.replace(settings.frontier, keep_urls=False, pause_at_finish=False)
        self._settings = Settings(
            crawl=settings.crawl,
            frontier=frontier,
            overrides=settings.overrides,
            sheets=settings.sheets,
            associations=settings.associations,
        )
        self._program = program
        self._frontier: Frontier | None = None
        self._out: dict[int, Lease] = {}

    def __len__(self) -> int:
        if self._frontier is None:
            return 0
        total = self._frontier.summary()
        return total.queued + total.future

    def add(self, uri: CrawlUri) -> Any:
        """Add the URI of a request that is no duplicate; return its Admission. Raises what `Frontier.open` raises."""
        if self._frontier is None:
            self._frontier = Frontier.open(":memory:", self._settings, program=self._program)
        return self._frontier.schedule(msgspec.structs.replace(uri, force=True))

    def ready_in(self) -> float | None:
        """Return the seconds until one is ready, None if there is none."""
        return None if self._frontier is None else self._frontier.next_ready_in()

    def next_lease(self) -> Lease | None:
        """Return one that is ready."""
        if self.ready_in() != 0.0:
            return None
        assert self._frontier is not None
        for lease in self._frontier.lease(1, ttl=_TTL):
            self._out[id(lease)] = lease
            return lease
        return None

    def has(self, lease: Lease) -> bool:
        """Return whether a lease is of this frontier."""
        return id(lease) in self._out

    def finish(self, ending: Lease | Finish) -> None:
        """End a lease."""
        assert self._frontier is not None
        self._frontier.finish_many([ending])
        del self._out[id(ending.lease if isinstance(ending, Finish) else ending)]

    def landed(self, lease: Lease, seconds: float | None) -> None:
        """Note that a download is over."""
        assert self._frontier is not None
        with suppress(LeaseExpired):
            self._frontier.landed(lease, fetch_seconds=seconds)

    def close(self) -> int:
        """Forget all; return how many are lost."""
        lost = len(self)
        if self._frontier is not None:
            self._frontier.close()
            self._frontier = None
        return lost
