"""A crawl of `budgetfrontier serve`, or of `budgetfrontier worker`, as the crawler uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.connections import is_cluster
from budgetfrontier.core.model import CrawlUri, Finish, Lease, QueueRecord, Summary, Tally
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Effective, Override, QueueSettings

if TYPE_CHECKING:
    from budgetfrontier.connections import AsyncConnection

FOREVER = 1e9
"""Seconds for which calls are repeated once the crawl has begun: no end of a lease is given up."""


class CrawlSettingsInForce:
    """The settings of a crawl with its adjustments, as of the last look."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._adjustments: list[Override] = []
        self._effective = Effective(settings.frontier, settings.overrides)

    def __repr__(self) -> str:
        return f"<CrawlSettingsInForce with {len(self._adjustments)} adjustments>"

    def adjust(self, found: Sequence[Override]) -> None:
        """Put adjustments in force, in place of those before."""
        if list(found) != self._adjustments:
            self._adjustments = list(found)
            self._effective = Effective(self._settings.frontier, self._settings.overrides, self._adjustments)

    def for_lease(self, lease: Lease) -> QueueSettings:
        """Return the settings for a leased URI."""
        effective = self._effective
        return effective.base if effective.trivial else effective.for_uri(lease.uri.url, lease.queue)


class ServedCrawl:
    """A crawl of a server, or of the workers that share it: a client, and the settings in force for each URI."""

    def __init__(self, name: str, client: AsyncConnection) -> None:
        self.name, self.in_partitions = name, is_cluster(name)
        self._client = client

    def __repr__(self) -> str:
        return f"<ServedCrawl {self.name}>"

    async def connect(self) -> None:
        """Connect, within 30 seconds; calls are repeated without end from then on."""
        await self._client.connect()
        self._client.retry_for = FOREVER
        self.settings: Settings = self._client.settings
        self.folder: Path = self._client.folder
        self._in_force = CrawlSettingsInForce(self.settings)
        await self.refresh()

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit URIs in order; durable when it returns."""
        return await self._client.schedule_many(uris)

    async def lease(self, count: int, *, ttl: float | None, wait: float) -> list[Lease]:
        """Lease up to `count` URIs; wait for the first for so many seconds."""
        return await self._client.lease(count, ttl=ttl, wait=wait)

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End leases; return those that had ended."""
        return await self._client.finish_many(finished)

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int, *, ttl: float | None
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases, and lease up to `count` URIs without waiting for any."""
        return await self._client.finish_and_lease(finished, count, ttl=ttl)

    def by_partition(self, leases: Iterable[Lease]) -> dict[int, list[Lease]]:
        """Return leases by partition; of a server, all as those of one."""
        if not self.in_partitions:
            return {0: given} if (given := list(leases)) else {}
        from budgetfrontier.cluster.partition import partition_of_lease  # needs the extra "kafka"

        found: dict[int, list[Lease]] = {}
        for lease in leases:
            found.setdefault(partition_of_lease(lease.id), []).append(lease)
        return found

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None) -> list[Lease]:
        """Set the deadlines of leases; return those that had ended."""
        return await self._client.renew_many(leases, ttl)

    async def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given."""
        return await self._client.give_back(leases)

    async def summary(self) -> Summary:
        """Return the counters, of all processes together."""
        return await self._client.summary()

    async def resume(self, *, reason: str, who: str) -> None:
        """Resume the crawl."""
        await self._client.resume(reason=reason, who=who)

    async def queue(self, key: str) -> QueueRecord | None:
        """Return the record of a queue."""
        return await self._client.queue(key)

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue of a URI. Raises ValueError if it has none."""
        return await self._client.queue_key(uri)

    async def rest(self, uri: CrawlUri, key: str, *, fetch_seconds: float | None, crawl_delay: float | None) -> float:
        """Return the politeness delay of a queue after a fetch."""
        return await self._client.rest(uri, key, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay)

    async def refresh(self) -> None:
        """Look which adjustments are in force, for `settings_for`."""
        self._in_force.adjust(await self._client.adjustments())

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI, as of the last `refresh`."""
        return self._in_force.for_lease(lease)

    async def close(self, *, within: float) -> None:
        """Give back all leases and disconnect; wait for no answer for longer than so many seconds."""
        self._client.retry_for = min(self._client.retry_for, within)
        with suppress(ConnectionLost, FrontierError, TimeoutError):
            async with asyncio.timeout(within):
                await self._client.close()
