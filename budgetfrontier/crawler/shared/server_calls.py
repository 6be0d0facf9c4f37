"""Calls to a server, repeated while it is away; the log says when it goes, and when it is back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from budgetfrontier.core.leasing_ahead import PASSING, PAUSE, SILENT, OpenCalls
from budgetfrontier.core.model import CrawlUri, Lease, QueueRecord, Tally
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.shared.served_crawl import ServedCrawl
from budgetfrontier.settings.overrides import QueueSettings

GRACE = 5.0
"""Seconds for which a visit waits for the server once the crawl is stopping."""

log = logging.getLogger("budgetfrontier.crawl")

_T = TypeVar("_T")


class CrawlServer:
    """The server of one crawl, `name`, or the workers of its partitions. Its methods are for one event loop."""

    def __init__(self, name: str, *, in_partitions: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._told = f"{name} or a part of it" if in_partitions else name
        self._now = now
        self._calls = OpenCalls(now)
        self._failed: set[int] = set()  # calls that are repeated
        self._away: float | None = None  # since when, once it was logged
        self.leaving = False
        """Whether a call that the server cannot carry out is given up."""

    async def answer(self, call: Callable[[], Awaitable[_T]], *, wait: float = 0.0) -> _T:
        """Return the answer to a call, which may take `wait` seconds. Raises errors that do not pass."""
        number = self._calls.begin(wait)
        try:
            while True:
                try:
                    answer = await call()
                    break
                except PASSING as error:
                    if self.leaving:
                        raise
                    self._failed.add(number)
                    self._note_absence(self._calls.due(number), str(error))
                await asyncio.sleep(PAUSE)
        finally:
            self._calls.end(number)
            self._failed.discard(number)
        if self._away is not None and not self._failed and not self._is_silent:
            log.warning("%s answers again, after %.0f s", self.name, self._now() - self._away)
            self._away = None
        return answer

    def watch(self) -> None:
        """Log that the server is away if a call has waited too long. To be called now and then."""
        if self._is_silent and not self.leaving:
            silent = self._calls.silent_for()
            self._note_absence(self._now() - silent, f"no answer for {silent:.0f} s")

    @property
    def _is_silent(self) -> bool:
        return self._calls.silent_for() >= SILENT

    def _note_absence(self, since: float, why: str) -> None:
        if self._away is None:
            self._away = since
            log.warning(
                "%s cannot be used now (%s): it is waited for; fetches in flight go on, and nothing is lost",
                self._told, why,
            )  # fmt: skip


class Questions:
    """The calls of visits, for one event loop. They raise PutBack if the crawl stops and the server does not answer.

    `sent` is called when URIs were scheduled.
    """

    def __init__(self, remote: ServedCrawl, server: CrawlServer, *, sent: Callable[[], object]) -> None:
        self._remote, self._server, self._sent = remote, server, sent
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(self) -> None:
        """Let questions wait for GRACE seconds at the most from now on."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit URIs in order; durable when it returns."""
        given = list(uris)
        tally = await self._answer(partial(self._remote.frontier.schedule_many, given))
        self._sent()
        return tally

    async def queue(self, key: str) -> QueueRecord | None:
        """Return the record of a queue."""
        return await self._answer(partial(self._remote.frontier.queue, key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue of a URI. Raises ValueError if it has none."""
        return await self._answer(partial(self._remote.frontier.queue_key, uri))

    async def rest(self, uri: CrawlUri, key: str, *, fetch_seconds: float | None, crawl_delay: float | None) -> float:
        """Return the politeness delay of a queue after a fetch."""
        call = partial(self._remote.frontier.rest, uri, key, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay)
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
