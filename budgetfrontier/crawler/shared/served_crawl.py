"""A crawl of `budgetfrontier serve`, or of `budgetfrontier worker`, as the crawler uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from budgetfrontier.connections import is_cluster
from budgetfrontier.core.model import Lease
from budgetfrontier.engine.api import AsyncFrontier
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.settings import Settings, sheets
from budgetfrontier.settings.overrides import Override, QueueSettings
from budgetfrontier.storage.keys import partition_of_lease

FOREVER = 1e9
"""Seconds for which calls are repeated once the crawl has begun: no end of a lease is given up."""


class ServedCrawl:
    """A crawl of a server, or of the workers that share it: a client, and the settings in force for each URI.

    `frontier` raises what `Frontier` raises, and ConnectionLost if there is no answer within the time set.
    """

    def __init__(self, name: str, frontier: AsyncFrontier) -> None:
        self.name, self.in_partitions = name, is_cluster(name)
        self.frontier = frontier

    async def connect(self) -> None:
        """Connect, within 30 seconds; calls are repeated without end from then on."""
        await self.frontier.connect()
        self.frontier.retry_for = FOREVER
        self.settings: Settings = self.frontier.settings
        self.folder: Path = self.frontier.folder
        self._adjustments: list[Override] = []
        self._effective = sheets.effective(self.settings)
        await self.refresh()

    def by_partition(self, leases: Iterable[Lease]) -> dict[int, list[Lease]]:
        """Return leases by partition; of a server, all as those of one."""
        if not self.in_partitions:
            return {0: given} if (given := list(leases)) else {}
        found: dict[int, list[Lease]] = {}
        for lease in leases:
            found.setdefault(partition_of_lease(lease.id), []).append(lease)
        return found

    async def refresh(self) -> None:
        """Look which adjustments are in force, for `settings_for`."""
        found = await self.frontier.adjustments()
        if found != self._adjustments:
            self._adjustments = found
            self._effective = sheets.effective(self.settings, found)

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI, as of the last `refresh`."""
        effective = self._effective
        return effective.base if effective.trivial else effective.for_uri(lease.uri.url, lease.queue, lease.uri.source)

    async def close(self, *, within: float) -> None:
        """Give back all leases and disconnect; wait for no answer for longer than so many seconds."""
        self.frontier.retry_for = min(self.frontier.retry_for, within)
        with suppress(ConnectionLost, FrontierError, TimeoutError):
            async with asyncio.timeout(within):
                await self.frontier.close()
