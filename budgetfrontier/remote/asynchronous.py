"""The client for asyncio: `Frontier`'s methods as coroutines, answered by a server."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from budgetfrontier.core import protocol
from budgetfrontier.core.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Finish,
    Lease,
    Outcome,
    QueueRecord,
    RunEnd,
    Summary,
    Tally,
)
from budgetfrontier.engine import arguments
from budgetfrontier.engine.arguments import Letters
from budgetfrontier.errors import ConnectionLost, FrontierClosed, LeaseExpired
from budgetfrontier.remote import calls, lease_calls, link
from budgetfrontier.remote.calls import Rpc, Steps, Train
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Override

_T = TypeVar("_T")


class AsyncRemoteFrontier:
    """A frontier that `budgetfrontier serve` has open: `RemoteFrontier` with coroutines, for one event loop.

    Use it with `async with`, or `await connect()` and `await close()`. Tasks may share one client: the calls that they
    make at the same time share a commit of the server. A task that is cancelled while it waits for leases gives back
    what the server had leased for it. What `RemoteFrontier` says of sharing, errors and lost connections holds here.
    """

    def __init__(
        self,
        address: str,
        *,
        crawl: str = "DEFAULT",
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = protocol.RETRY_FOR,
        keep_leases: bool = False,
        quiet: bool = False,
    ) -> None:
        """Take the arguments of `RemoteFrontier`. Does not connect yet."""
        self._link = link.Link(address, crawl, token, tls, quiet=quiet)
        self._held = calls.ClientLeases()
        self.retry_for = arguments.number(retry_for, "retry_for")
        """Seconds for which a call is repeated after a lost connection; calls under way notice a change."""
        self._keep_leases = keep_leases
        self._closed = False
        self._channel: Any = None
        self._methods: dict[protocol.Method, Any] = {}
        self._connected: protocol.Connected | None = None

    async def connect(self) -> Self:
        """Connect, and open the crawl or create it. Raises ConnectionLost, and what `Frontier.open` raises."""
        if self._channel is None:
            self._channel = self._link.open(grpc.aio.secure_channel, grpc.aio.insecure_channel)
            self._methods = {method: self._channel.unary_unary(method.path) for method in protocol.METHODS}
        if self._connected is None:
            try:
                self._connected = await self._run(calls.connect())
            except BaseException:
                self._closed = True
                await self._channel.close()
                raise
        return self

    # -- URIs in

    async def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI. A message and a commit for each: `schedule_many` and `schedule_each` take many."""
        return await self._run(calls.schedule(uri))

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch, in order; several messages are under way at a time."""
        return await self._run(calls.schedule_many(uris))

    async def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch, in order; return the result for each URI."""
        return await self._run(calls.schedule_each(uris))

    async def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs that were fetched elsewhere as seen."""
        return await self._run(calls.mark_seen(uris, charge=charge))

    # -- URIs out

    async def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, for `ttl` seconds each. Waits up to `wait` seconds for the first one.

        The server answers as soon as there is one; it is not kept from other work meanwhile.
        """
        leases = await self._run(calls.lease(count, ttl, wait))
        self._held.add(leases)
        return leases

    async def finish(self, lease: Lease, outcome: Outcome = Outcome.SUCCESS, **options: Any) -> None:
        """End a lease; `options` are those of `Frontier.finish`. Raises LeaseExpired for one that has ended."""
        try:
            await self._run(calls.finish(lease, outcome, **options))
        except LeaseExpired:
            self._held.drop([lease])
            raise
        self._held.drop([lease])

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases in order; return those that had already ended, and those given twice."""
        given = calls.endings(finished)
        late = await self._run(calls.finish_many(given))
        self._held.drop(given)
        return late

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int = 1, *, ttl: float | None = None, wait: float = 0.0
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases like `finish_many`, then lease URIs like `lease`; return what both return.

        One message and one commit instead of two. It does not wait before the leases have ended.
        """
        given = calls.endings(finished)
        late, leases = await self._run(calls.finish_and_lease(given, count, ttl, wait))
        self._held.drop(given)
        self._held.add(leases)
        return late, leases

    async def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        given = list(leases)
        late = await self._run(lease_calls.give_back(given))
        self._held.drop(given)
        return late

    async def landed(
        self, lease: Lease, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> None:
        """Report that the download of a lease is over, while its outcome is not known yet. Raises LeaseExpired."""
        await self._run(lease_calls.landed(lease, fetch_seconds, crawl_delay))

    async def landed_many(self, downloads: Iterable[tuple[Lease, float | None]]) -> list[Lease]:
        """Report that downloads are over, each a lease with the seconds that it took; return leases that had ended."""
        return await self._run(lease_calls.landed_many(downloads))

    async def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease to `ttl` seconds from now (None: the setting). Raises LeaseExpired."""
        await self._run(lease_calls.renew(lease, ttl))

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases to `ttl` seconds from now; return those that had ended."""
        return await self._run(lease_calls.renew_many(leases, ttl))

    async def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now; None: never, as things stand."""
        return await self._run(calls.plain("next_ready_in"))

    # -- looking

    async def state(self) -> CrawlState:
        """Return the state of the crawl."""
        return await self._run(calls.plain("state"))

    @property
    def settings(self) -> Settings:
        """The settings in force when this client connected, without the adjustments."""
        return link.decode_settings(self._first().settings)

    @property
    def folder(self) -> Path:
        """The folder of the frontier, on the server."""
        return Path(self._first().folder)

    async def summary(self) -> Summary:
        """Return the counters of the frontier, which all clients share, as of now."""
        return await self._run(calls.plain("summary"))

    async def standings(self) -> Any:
        """Return the standings of the partitions that a worker has, as plain data."""
        return await self._run(calls.plain("standings"))

    async def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        return await self._run(calls.plain("queue", key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI would be placed on, by its `url`, a normalized href, and `queue`."""
        return await self._run(calls.plain("queue_key", uri.url, queue=uri.queue))

    async def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs, by its `url`."""
        return await self._run(calls.rest(uri, key, fetch_seconds, crawl_delay))

    async def adjustments(self) -> list[Override]:
        """Return the adjustments in force, which come after the overrides of the settings."""
        return await self._run(calls.adjustments())

    async def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""
        return await self._run(calls.plain("dead_letters", limit=limit))

    # -- steering

    async def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more, to no client: PAUSING until the leases that are out have ended, then PAUSED."""
        return await self._run(calls.plain("pause", reason=reason, who=who))

    async def resume(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """Resume a paused crawl."""
        return await self._run(calls.plain("resume", reason=reason, who=who))

    async def terminate(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """End the crawl permanently; leases that are out may still be finished."""
        return await self._run(calls.plain("terminate", reason=reason, who=who))

    async def retire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Retire a queue by name; False if there is no such queue, as for `unretire`, `snooze` and `wake`."""
        return await self._run(calls.plain("retire", key, reason=reason, who=who))

    async def unretire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Bring a RETIRED queue to the back of its FIFO."""
        return await self._run(calls.plain("unretire", key, reason=reason, who=who))

    async def snooze(self, key: str, *, until: float, reason: str = "", who: str | None = None) -> bool:
        """Block a queue until a time (epoch seconds)."""
        return await self._run(calls.plain("snooze", key, until=until, reason=reason, who=who))

    async def wake(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """End the snooze of a queue now."""
        return await self._run(calls.plain("wake", key, reason=reason, who=who))

    async def regulate(self, key: str, **asked: float) -> bool:
        """Set what crawlers ask for a queue, as `Frontier.regulate` does; False if there is no such queue."""
        return await self._run(calls.plain("regulate", key, **asked))

    async def set_budgets(self, budgets: Iterable[tuple[CrawlUri, int]]) -> None:
        """Set the total budgets of the queues of URIs with normalized URLs, as `regulate` does, in one message."""
        await self._run(calls.set_budgets(budgets))

    async def reset_queue(self, key: str) -> bool:
        """Take back what `regulate`, `set_queue` and `snooze` have set for a queue; False if there is no such queue."""
        return await self._run(calls.plain("reset_queue", key))

    async def replay(
        self, letters: Letters = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Put dead letters back on queues: the given ones (or ids), those of a queue, or all; return their number."""
        given = calls.letters(letters)
        return await self._run(calls.plain("replay", given, queue=queue, reason=reason, who=who))

    # -- the connection

    async def commit(self) -> None:
        """Return at once: all that was acknowledged is on disk."""
        self._check()

    async def close(self, *, end: RunEnd | str | None = None, reason: str = "") -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect. A second close does nothing.

        If the server does not answer, its leases expire. `end` and `reason` are ignored: the run is the server's.
        """
        if self._closed or self._channel is None:
            self._closed = True
            return
        try:
            self.retry_for = 0.0
            await self._run(calls.leave([] if self._keep_leases else self._held.ids()))
        except ConnectionLost:
            pass
        finally:
            await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connection alone: leases stay out until they expire."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncRemoteFrontier {self._link.crawl!r} at {self._link.address}{' closed' if self._closed else ''}>"

    def _check(self) -> None:
        if self._closed:
            raise FrontierClosed(f"this client of {self._link.address} was closed; make another")
        if self._channel is None:
            raise FrontierClosed("this client is not connected; use it with `async with`, or await its `connect()`")

    def _first(self) -> protocol.Connected:
        self._check()
        assert self._connected is not None
        return self._connected

    async def run(self, steps: Steps[_T]) -> _T:
        """Make a call of `calls`, which ends with its task; leases of it are not given back at `close`."""
        return await self._run(steps)

    async def _run(self, steps: Steps[_T]) -> _T:
        """Send what a call yields, and return its result."""
        self._check()
        reply: Any = None
        while True:
            try:
                wanted = steps.send(reply)
            except StopIteration as e:
                result: _T = e.value
                return result
            reply = await (self._send(wanted) if isinstance(wanted, Rpc) else self._send_all(wanted))

    async def _send(self, rpc: Rpc) -> Any:
        number = self._link.number(rpc)
        try:
            return await self._tried(rpc, number)
        finally:
            self._link.abandon(number)

    async def _tried(self, rpc: Rpc, number: int) -> Any:
        """Return the reply to a call, repeated while the connection is lost. Raises ConnectionLost."""
        began, pause = time.monotonic(), link.FIRST_PAUSE
        body = self._link.body(rpc, number)
        while True:
            try:
                return self._link.answered(rpc, number, await self._begin(rpc, body))
            except grpc.RpcError as failure:
                self._link.raise_error(number, failure)
                passed = time.monotonic() - began
                if rpc.method is protocol.CONNECT:
                    await asyncio.to_thread(self._link.connecting.check, failure)
                if passed >= self.retry_for:
                    raise self._link.lost(rpc, failure, passed) from None
                self._link.connecting.waiting(failure, self.retry_for - passed)
            await asyncio.sleep(min(pause, max(0.0, self.retry_for - passed)))
            pause = min(2 * pause, link.LONGEST_PAUSE)

    def _begin(self, rpc: Rpc, body: bytes) -> Any:
        """Send a call; return what is awaited for its reply."""
        return self._methods[rpc.method](body, timeout=self._link.timeout(rpc), metadata=self._link.metadata)

    async def _send_all(self, train: Train) -> list[Any]:
        """Send calls, some at a time, in order; return their replies."""
        replies: list[Any] = []
        sent: deque[tuple[Rpc, int, Any]] = deque()
        before = 0
        try:
            for rpc in train.calls:
                number = self._link.number(rpc)
                sent.append((rpc, number, self._begin(rpc, self._link.body(rpc, number, before))))
                before = number
                if len(sent) == link.IN_FLIGHT:
                    replies.append(await self._awaited(*sent[0]))
                    sent.popleft()
            while sent:
                replies.append(await self._awaited(*sent[0]))
                sent.popleft()
        finally:
            for _, number, begun in sent:
                begun.cancel()
                self._link.abandon(number)
        return replies

    async def _awaited(self, rpc: Rpc, number: int, begun: Any) -> Any:
        """Return the reply to a call that was sent, repeated if the connection is lost."""
        try:
            return self._link.answered(rpc, number, await begun)
        except grpc.RpcError as failure:
            self._link.raise_error(number, failure)
            self._link.connecting.waiting(failure, self.retry_for)
        return await self._tried(rpc, number)
