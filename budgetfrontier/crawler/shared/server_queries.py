"""The questions of visits to the server, which a stop of the crawl ends if they are not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from budgetfrontier.core.model import CrawlUri, Lease, QueueRecord, Tally
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.frontiers import RemoteCrawl
from budgetfrontier.crawler.shared.server_calls import CrawlServer
from budgetfrontier.settings.overrides import QueueSettings

GRACE = 5.0
"""Seconds for which a visit waits for the server once the crawl is stopping."""

_T = TypeVar("_T")


class Questions:
    """The calls of visits, for one event loop. They raise PutBack if the crawl stops and the server does not answer.

    `told` is called when URIs were scheduled.
    """

    def __init__(self, remote: RemoteCrawl, server: CrawlServer, *, told: Callable[[], object]) -> None:
        self._remote, self._server, self._told = remote, server, told
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<Questions to {self._remote.name}>"

    def stop(self) -> None:
        """Let questions wait for GRACE seconds at the most from now on."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit URIs in order; durable when it returns."""
        given = list(uris)
        tally = await self._answer(partial(self._remote.schedule_many, given))
        self._told()
        return tally

    async def queue(self, key: str) -> QueueRecord | None:
        """Return the record of a queue."""
        return await self._answer(partial(self._remote.queue, key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue of a URI. Raises ValueError if it has none."""
        return await self._answer(partial(self._remote.queue_key, uri))

    async def rest(self, uri: CrawlUri, key: str, *, fetch_seconds: float | None, crawl_delay: float | None) -> float:
        """Return the politeness delay of a queue after a fetch."""
        call = partial(self._remote.rest, uri, key, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay)
        return await self._answer(call)

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI, as of the last look."""
        return self._remote.settings_for(lease)

    async def _answer(self, call: Callable[[], Awaitable[_T]]) -> _T:
        answer = asyncio.ensure_future(self._server.answer(call))
        try:
            await asyncio.wait((answer, self._stopped), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((answer,), timeout=GRACE)
            if not answer.done():
                raise PutBack(0.0, "the crawl is stopping, and the server does not answer")
            return answer.result()
        finally:
            answer.cancel()
