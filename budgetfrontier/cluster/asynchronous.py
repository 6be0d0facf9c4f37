"""The client of a crawl in partitions for asyncio: the methods of `ClusterFrontier` as coroutines."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from budgetfrontier.bus.interface import BusError
from budgetfrontier.client import AsyncRemoteFrontier, calls
from budgetfrontier.cluster.client import LOOK_AGAIN, PART, PAUSE, SHORT, partition_of
from budgetfrontier.cluster.owners import Directory, Owner
from budgetfrontier.cluster.routing import Router, partition_of_queue
from budgetfrontier.cluster.standing import Standing, crawl_state
from budgetfrontier.cluster.totals import merged_summary
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, NotOwner
from budgetfrontier.model import CrawlState, CrawlUri, Finish, Lease, QueueRecord, Summary, Tally
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override

_T = TypeVar("_T")
_R = TypeVar("_R")

_MOVED = (NotOwner, ConnectionLost, FrontierClosed)
"""Errors of a call that is to be made again, to whoever has the partition then."""


class AsyncClusterFrontier:
    """A crawl in partitions, for one event loop; what `ClusterFrontier` says of owners and repeated calls holds here.

    Use it with `async with`, or `await connect()` and `await close()`. Calls to several workers are made at once.
    """

    def __init__(
        self,
        crawl: str,
        directory: Directory,
        *,
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = 60.0,
        keep_leases: bool = False,
    ) -> None:
        """Take the arguments of `ClusterFrontier`. Does not connect yet."""
        self._crawl, self._directory = crawl, directory
        self._options: dict[str, Any] = {"token": token, "tls": tls, "keep_leases": keep_leases}
        self.retry_for = retry_for
        """Seconds for which a call is repeated; calls under way notice a change."""
        self._remotes: dict[str, asyncio.Task[AsyncRemoteFrontier]] = {}
        self._owners: dict[int, str] = {}
        self._partitions = 0
        self._router: Router | None = None
        self._settings: Settings | None = None
        self._turn = 0
        self._closed = False
        self._reading = asyncio.Lock()
        self._read_at = -LOOK_AGAIN

    def __repr__(self) -> str:
        return f"<AsyncClusterFrontier {self._crawl!r}: {len(self._owners)} of {self._partitions} partitions>"

    async def connect(self) -> Self:
        """Connect to a worker. Raises ConnectionLost if none answers for `retry_for` seconds."""
        if self._router is None:
            remote = await self._any()
            self._settings = remote.settings
            self._router = await asyncio.to_thread(Router.of, self._settings, self._partitions, self._directory)
        return self

    # -- URIs in

    async def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch; count the results."""
        if isinstance(uris, str | bytes):
            raise TypeError("this takes an iterable of URIs; one alone goes into a list")
        tally, given = Tally(), list(uris)
        route = self._routes().partition
        for start in range(0, len(given), PART):
            part = given[start : start + PART]
            for counted in await self._routed(part, route, lambda remote, some: remote.schedule_many(some)):
                tally.add(counted)
        return tally

    # -- URIs out

    async def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, of workers in turn. Waits up to `wait` seconds for the first one."""
        deadline = time.monotonic() + wait
        while True:
            leases = await self._lease_now(count, ttl)
            left = deadline - time.monotonic()
            if leases or left <= 0:
                return leases
            await asyncio.sleep(min(left, PAUSE))

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases; return those that had already ended."""
        given = calls.endings(finished)
        late = await self._routed(given, partition_of, lambda remote, part: remote.finish_many(part))
        return [lease for part in late for lease in part]

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int = 1, *, ttl: float | None = None, wait: float = 0.0
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases like `finish_many`, then lease URIs like `lease`; return what both return."""
        late = await self.finish_many(finished)
        return late, await self.lease(count, ttl=ttl, wait=wait)

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases; return those that had ended."""
        late = await self._routed(list(leases), partition_of, lambda remote, part: remote.renew_many(part, ttl))
        return [lease for part in late for lease in part]

    async def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        late = await self._routed(list(leases), partition_of, lambda remote, part: remote.give_back(part))
        return [lease for part in late for lease in part]

    # -- looking

    @property
    def settings(self) -> Settings:
        """The settings of the crawl when this client connected, without the adjustments."""
        self._routes()
        assert self._settings is not None
        return self._settings

    @property
    def folder(self) -> Path:
        """Where the frontiers are: in the folders of workers, so that this is their common name."""
        return Path(self._crawl)

    async def standings(self) -> tuple[list[Standing], set[int]]:
        """Return the standings of the partitions whose owners answer, and the numbers of the others."""
        await self._look_up()

        async def ask(address: str) -> list[Standing]:
            try:
                return msgspec.convert(await (await self._remote(address)).standings(), list[Standing])
            except _MOVED:
                await self._forget(address)
                return []

        found: dict[int, Standing] = {}
        for answer in await asyncio.gather(*map(ask, self._addresses())):
            for one in answer:
                if one.partition not in found or one.epoch > found[one.partition].epoch:
                    found[one.partition] = one
        return [found[number] for number in sorted(found)], set(range(self._partitions)) - found.keys()

    async def summary(self) -> Summary:
        """Return the counters of all partitions, with the state of the crawl.

        It is FINISHED once all partitions are, and nothing is under way between them. Raises ConnectionLost if a
        partition is without an owner for long.
        """
        standings = await self._all_standings()
        merged = merged_summary([one.summary for one in standings])
        merged.state = crawl_state(standings)
        return merged

    async def state(self) -> CrawlState:
        """Return the state of the crawl."""
        return crawl_state(await self._all_standings())

    async def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        return await self._of_queue(key, lambda remote: remote.queue(key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue of a URI with a normalized URL. Raises ValueError if it has none."""
        number = self._routes().partition(uri)
        (key,) = await self._routed([uri], lambda _: number, lambda remote, _: remote.queue_key(uri))
        return key

    async def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs."""
        return await self._of_queue(
            key, lambda remote: remote.rest(uri, key, fetch_seconds=fetch_seconds, crawl_delay=crawl_delay)
        )

    async def adjustments(self) -> list[Override]:
        """Return the adjustments in force, as one of the partitions has them."""
        while True:
            with suppress(*_MOVED):
                return await (await self._any()).adjustments()

    async def resume(self, *, reason: str = "", who: str | None = None) -> None:
        """Refuse: whoever resumes a crawl in partitions speaks to all of them."""
        raise FrontierError(f"the crawl {self._crawl!r} is paused; resume it with --cluster")

    # -- the connection

    async def close(self) -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect."""
        if self._closed:
            return
        self._closed = True
        for task in self._remotes.values():
            with suppress(FrontierError, asyncio.CancelledError):
                await (await task).close()
        await asyncio.to_thread(self._directory.close)

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- their parts

    async def _lease_now(self, count: int, ttl: float | None) -> list[Lease]:
        leases: list[Lease] = []
        await self._look_up()
        addresses = self._addresses()
        self._turn += 1
        for place in range(len(addresses)):
            address = addresses[(self._turn + place) % len(addresses)]
            try:
                leases += await (await self._remote(address)).lease(count - len(leases), ttl=ttl)
            except _MOVED:
                await self._forget(address)
            if len(leases) >= count:
                break
        return leases

    async def _of_queue(self, key: str, call: Callable[[AsyncRemoteFrontier], Awaitable[_R]]) -> _R:
        self._routes()
        number = partition_of_queue(key, self._partitions)
        (result,) = await self._routed([key], lambda _: number, lambda remote, _: call(remote))
        return result

    async def _routed(
        self,
        items: list[_T],
        partition: Callable[[_T], int],
        call: Callable[[AsyncRemoteFrontier, list[_T]], Awaitable[_R]],
    ) -> list[_R]:
        """Make calls to the owners of the items' partitions, at once; return the results of the parts."""
        self._check()
        results: list[_R] = []
        left = [(item, partition(item)) for item in items]
        began = time.monotonic()
        lost: list[Exception] = []

        async def ask(address: str, part: list[tuple[_T, int]]) -> list[tuple[_T, int]]:
            """Return the items that are to be asked for again."""
            try:
                results.append(await call(await self._remote(address), [item for item, _ in part]))
            except _MOVED as e:
                lost[:] = [e]
                await self._forget(address)
                return part
            return []

        while left:
            by_address: dict[str | None, list[tuple[_T, int]]] = {}
            for item, number in left:
                by_address.setdefault(self._owners.get(number), []).append((item, number))
            waiting = by_address.pop(None, [])
            asked = [ask(address, part) for address, part in by_address.items() if address is not None]
            for again in await asyncio.gather(*asked):
                waiting += again
            left = waiting
            if left:
                numbers = sorted({number for _, number in left})
                if time.monotonic() > began + self.retry_for:
                    raise ConnectionLost(
                        f"partitions {numbers[:10]} of {self._crawl!r} have had no owner that answers for "
                        f"{self.retry_for:.0f} s ({lost[0] if lost else 'none is known'}); look whether workers run"
                    )
                await self._refresh()
                if any(number not in self._owners for number in numbers):
                    await asyncio.sleep(PAUSE)
        return results

    async def _all_standings(self) -> list[Standing]:
        began = time.monotonic()
        while True:
            found, missing = await self.standings()
            if found and not missing:
                return found
            if time.monotonic() > began + self.retry_for:
                raise ConnectionLost(f"partitions {sorted(missing)} of {self._crawl!r} have no owner that answers")
            await asyncio.sleep(PAUSE)
            await self._refresh()

    async def _any(self) -> AsyncRemoteFrontier:
        """Return a connection to some owner."""
        began = time.monotonic()
        while True:
            await self._look_up()
            for address in self._addresses():
                try:
                    return await self._remote(address)
                except _MOVED:
                    await self._forget(address)
            if time.monotonic() > began + self.retry_for:
                raise ConnectionLost(f"no worker of {self._crawl!r} answers; look whether one runs")
            await asyncio.sleep(PAUSE)

    def _routes(self) -> Router:
        self._check()
        if self._router is None:
            raise FrontierClosed("this client is not connected; use it with `async with`, or await its `connect()`")
        return self._router

    def _addresses(self) -> list[str]:
        return sorted(set(self._owners.values()))

    async def _look_up(self) -> None:
        """Look for owners if some are not known, or if that was done a while ago."""
        self._check()
        if len(self._owners) < max(1, self._partitions) or time.monotonic() > self._read_at + LOOK_AGAIN:
            await self._refresh()

    async def _refresh(self) -> None:
        """Read the directory, unless that was done just now; owners stay as they were while it does not answer."""
        async with self._reading:
            if time.monotonic() < self._read_at + PAUSE / 2:
                return
            try:
                found: Mapping[int, Owner] = await asyncio.to_thread(self._directory.read)
            except BusError:
                if not self._partitions:
                    raise
                return
            finally:
                self._read_at = time.monotonic()
        self._owners = {number: owner.address for number, owner in found.items() if owner.address}
        self._partitions = max((owner.partitions for owner in found.values()), default=0)

    async def _remote(self, address: str) -> AsyncRemoteFrontier:
        """Return a connection, which tasks that need it at the same time share."""
        task = self._remotes.get(address)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            remote = AsyncRemoteFrontier(address, crawl=self._crawl, retry_for=SHORT, **self._options)
            task = self._remotes[address] = asyncio.ensure_future(remote.connect())
        return await asyncio.shield(task)

    async def _forget(self, address: str) -> None:
        """Look up the owners anew of the partitions that were at an address."""
        self._owners = {number: each for number, each in self._owners.items() if each != address}
        await self._refresh()

    def _check(self) -> None:
        if self._closed:
            raise FrontierClosed(f"this client of {self._crawl!r} was closed; make another")
