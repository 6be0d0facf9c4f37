"""The client of a crawl in partitions for asyncio: the methods of `ClusterFrontier` as coroutines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from budgetfrontier.cluster.client import JUST_NOW, SHORT
from budgetfrontier.cluster.cluster_calls import Calls
from budgetfrontier.cluster.owners import Directory, Owner
from budgetfrontier.cluster.partition_progress import PartitionProgress, crawl_state, crawl_summary
from budgetfrontier.cluster.steps import Answers, Ask, GiveUp, LookUp, Steps, silent
from budgetfrontier.cluster.thread_calls import CANCELLED_WITHIN
from budgetfrontier.core import protocol
from budgetfrontier.core.model import Admission, CrawlState, CrawlUri, Finish, Lease, QueueRecord, Summary, Tally
from budgetfrontier.engine import arguments
from budgetfrontier.errors import FrontierClosed, FrontierError
from budgetfrontier.remote import AsyncRemoteFrontier
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Override

_T = TypeVar("_T")


class AsyncClusterFrontier:
    """A crawl in partitions, for one event loop; what `ClusterFrontier` says of owners and repeated calls holds here.

    Use it with `async with`, or `await connect()` and `await close()`. Tasks may share one client. One that is
    cancelled while it waits for leases loses none.
    """

    def __init__(
        self,
        crawl: str,
        directory: Directory,
        *,
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = 2 * protocol.RETRY_FOR,
        keep_leases: bool = False,
    ) -> None:
        """Take the arguments of `ClusterFrontier`. Does not connect yet."""
        self._calls = Calls(crawl, retry_for)
        self._asking = self._calls.asking
        self._directory = directory
        self._options: dict[str, Any] = {"token": token, "tls": tls}
        self._keep_leases = keep_leases
        self._remotes: dict[str, asyncio.Task[AsyncRemoteFrontier]] = {}
        self._reading = asyncio.Lock()
        self._last_read: tuple[float, Mapping[int, Owner]] = (-JUST_NOW, {})
        self._settings: Settings | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncClusterFrontier {self._asking.told}{' closed' if self._closed else ''}>"

    @property
    def retry_for(self) -> float:
        """Seconds for which a call is repeated; calls under way notice a change."""
        return self._asking.retry_for

    @retry_for.setter
    def retry_for(self, seconds: float) -> None:
        self._asking.retry_for = seconds

    async def connect(self) -> Self:
        """Find a worker, and the settings of the crawl. Raises ConnectionLost if none answers for `retry_for` s."""
        self._settings = await self._run(self._calls.settings(), connects=True)
        return self

    # -- URIs in

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch; count the results."""
        return await self._run(self._calls.schedule_many(uris))

    async def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch; return the result for each URI."""
        return await self._run(self._calls.schedule_each(uris))

    async def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs that were fetched elsewhere as seen."""
        return await self._run(self._calls.mark_seen(uris, charge))

    # -- URIs out

    async def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, of workers in turn. Waits up to `wait` seconds for the first one."""
        return await self._run(self._calls.lease(count, ttl, wait))

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases; return those that had already ended."""
        return await self._run(self._calls.finish_many(finished))

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int = 1, *, ttl: float | None = None, wait: float = 0.0
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases like `finish_many`, then lease URIs like `lease`; return what both return."""
        count, ttl, wait = arguments.asked(count, ttl, wait)
        late = await self.finish_many(finished)
        return late, await self.lease(count, ttl=ttl, wait=wait)

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases; return those that had ended."""
        return await self._run(self._calls.renew_many(leases, ttl))

    async def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        return await self._run(self._calls.give_back(leases))

    async def landed_many(self, downloads: Iterable[tuple[Lease, float | None]]) -> list[Lease]:
        """Report that downloads are over, each a lease with the seconds that it took; return leases that had ended."""
        return await self._run(self._calls.landed_many(downloads))

    async def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now; None: never, as things stand."""
        return await self._run(self._calls.next_ready_in())

    # -- looking

    @property
    def settings(self) -> Settings:
        """The settings of the crawl when this client connected, without the adjustments."""
        self._check()
        assert self._settings is not None
        return self._settings

    @property
    def folder(self) -> Path:
        """Where the frontiers are: in the folders of workers, so that this is their common name."""
        return Path(self._asking.crawl)

    async def standings(self) -> tuple[list[PartitionProgress], set[int]]:
        """Return the standings of the partitions whose owners answer, and the numbers of the others."""
        return await self._run(self._calls.standings_now())

    async def summary(self) -> Summary:
        """Return the counters of all partitions. Raises ConnectionLost if one is without an owner for long."""
        return crawl_summary(await self._run(self._calls.standings()))

    async def state(self) -> CrawlState:
        """Return the state of the crawl."""
        return crawl_state(await self._run(self._calls.standings()))

    async def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        return await self._run(self._calls.queue(key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue of a URI with a normalized URL. Raises ValueError if it has none."""
        return await self._run(self._calls.queue_key(uri))

    async def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs."""
        return await self._run(self._calls.rest(uri, key, fetch_seconds, crawl_delay))

    async def adjustments(self) -> list[Override]:
        """Return the adjustments in force, as one of the partitions has them."""
        return await self._run(self._calls.adjustments())

    # -- steering

    async def pause(self, *, reason: str = "operator", who: str | None = None) -> None:
        """Lease nothing more, to no client; each partition is PAUSED once its leases have ended."""
        await self._run(self._calls.steer("pause", reason, who))

    async def resume(self, *, reason: str = "", who: str | None = None) -> None:
        """Resume a paused crawl. Each partition is resumed when its owner reads that in its log."""
        await self._run(self._calls.steer("resume", reason, who))

    async def terminate(self, *, reason: str = "", who: str | None = None) -> None:
        """End the crawl permanently; leases that are out may still be finished."""
        await self._run(self._calls.steer("terminate", reason, who))

    async def set_budgets(self, budgets: Iterable[tuple[CrawlUri, int]]) -> None:
        """Set the total budgets of the queues of URIs with normalized URLs, as `regulate` does."""
        await self._run(self._calls.set_budgets(budgets))

    # -- the connection

    async def close(self) -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect. A second close does nothing.

        Leases of workers that do not answer within some seconds expire.
        """
        if self._closed:
            return
        made = [address for address, task in self._remotes.items() if task.done() and not _has_failed(task)]
        try:
            with suppress(FrontierError):
                await self._run(self._calls.leave(self._keep_leases, made), connects=True)
        finally:
            self._closed = True
            for task in self._remotes.values():
                task.cancel()
            for address in made:
                await self._remotes[address].result().disconnect()
            await asyncio.to_thread(self._directory.close)

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- what the rules yield

    async def _run(self, steps: Steps[_T], *, connects: bool = False) -> _T:
        """Do what a call yields; return its result."""
        begun: list[asyncio.Task[None]] = []
        try:
            while True:
                self._check(connects=connects)
                try:
                    wanted = next(steps)
                except StopIteration as e:
                    result: _T = e.value
                    return result
                if isinstance(wanted, Answers):
                    begun += self._begin(wanted.of)
                    tasks = [each.begun for each in wanted.of]
                    await asyncio.wait(tasks, timeout=wanted.within, return_when=asyncio.FIRST_COMPLETED)
                elif isinstance(wanted, GiveUp):
                    await self._give_up(wanted.asks)
                else:
                    await asyncio.sleep(wanted.seconds)
        finally:
            for task in begun:
                task.cancel()
            steps.close()

    def _begin(self, wanted: Sequence[Ask | LookUp]) -> list[asyncio.Task[None]]:
        begun = []
        for each in wanted:
            if each.begun is None:
                each.begun = asyncio.ensure_future(self._do(each))
                begun.append(each.begun)
        return begun

    async def _give_up(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            ask.begun.cancel()
        await asyncio.wait([ask.begun for ask in asks], timeout=CANCELLED_WITHIN)

    async def _do(self, each: Ask | LookUp) -> None:
        try:
            if isinstance(each, LookUp):
                look = asyncio.to_thread(self._directory.suffix_list) if each.suffix_list else self._read()
                each.result = await look
            else:
                remote = await self._remote(each.address)
                each.result = await remote.transport.run(each.steps)
        except asyncio.CancelledError:
            each.error = silent(each.address) if isinstance(each, Ask) else None
            raise
        except Exception as e:
            each.error = e
        finally:
            each.ended = True

    async def _read(self) -> Mapping[int, Owner]:
        async with self._reading:
            at, found = self._last_read
            if monotonic() >= at + JUST_NOW:
                found = await asyncio.to_thread(self._directory.read)
                self._last_read = monotonic(), found
            return found

    async def _remote(self, address: str) -> AsyncRemoteFrontier:
        """Return a connection, which tasks that need it at the same time share."""
        task = self._remotes.get(address)
        if task is None or (task.done() and _has_failed(task)):
            remote = AsyncRemoteFrontier(
                address, crawl=self._asking.crawl, retry_for=SHORT, quiet=True, **self._options
            )
            task = self._remotes[address] = asyncio.ensure_future(remote.connect())
            task.add_done_callback(_has_failed)  # whether anybody waits for it or not, so that it is not logged
        return await asyncio.shield(task)

    def _check(self, *, connects: bool = False) -> None:
        if self._closed:
            raise FrontierClosed(f"this client of {self._asking.crawl!r} was closed; make another")
        if self._settings is None and not connects:
            raise FrontierClosed("this client is not connected; use it with `async with`, or await its `connect()`")


def _has_failed(task: asyncio.Task[AsyncRemoteFrontier]) -> bool:
    """Tell whether a connection that was tried was not made."""
    return task.cancelled() or task.exception() is not None
