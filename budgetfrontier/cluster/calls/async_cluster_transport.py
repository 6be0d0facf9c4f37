"""The transport of the asyncio client of a cluster: its connections to workers, and the steps of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

from budgetfrontier.cluster.calls.cluster_transport import JUST_NOW, SHORT
from budgetfrontier.cluster.calls.partition_router import PartitionRouter
from budgetfrontier.cluster.calls.steps import Answers, Ask, GiveUp, LookUp, Steps, silent
from budgetfrontier.cluster.calls.thread_calls import CANCELLED_WITHIN
from budgetfrontier.cluster.directory.owners import Directory, Owner
from budgetfrontier.errors import FrontierClosed
from budgetfrontier.remote import AsyncRemoteFrontier

_T = TypeVar("_T")


class AsyncClusterTransport:
    """Makes the calls of one client, for one event loop; `options` are those of `RemoteFrontier`."""

    def __init__(self, router: PartitionRouter, directory: Directory, options: Mapping[str, Any]) -> None:
        self._asking, self._directory, self._options = router, directory, options
        self._remotes: dict[str, asyncio.Task[AsyncRemoteFrontier]] = {}
        self._looking: asyncio.Task[Mapping[int, Owner]] | None = None
        """The last look at the owners, which tasks share."""
        self._looked_at = 0.0
        self._looks = set[asyncio.Task[Any]]()
        """The looks at the directory that are under way in threads, also for tasks that were cancelled."""
        self.is_closed = False
        """Whether `close` was called."""

    def __repr__(self) -> str:
        return f"<AsyncClusterTransport of {self._asking!r}>"

    def check(self) -> None:
        """Raise FrontierClosed after `close`."""
        if self.is_closed:
            raise FrontierClosed(f"this client of {self._asking.crawl!r} was closed; make another")

    async def remote(self, address: str) -> AsyncRemoteFrontier:
        """Return the connection to a worker, which tasks share, made if need be. Raises ConnectionLost."""
        task = self._remotes.get(address)
        if task is None or (task.done() and _has_failed(task)):
            remote = AsyncRemoteFrontier(
                address, crawl=self._asking.crawl, retry_for=SHORT, quiet=True, **self._options
            )
            task = self._remotes[address] = asyncio.ensure_future(remote.connect())
            task.add_done_callback(_has_failed)  # whether anybody waits for it or not, so that it is not logged
        return await asyncio.shield(task)

    def connected(self) -> dict[str, AsyncRemoteFrontier]:
        """Return the connections to workers that were made, by address."""
        begun = self._remotes.items()
        return {address: task.result() for address, task in begun if task.done() and not _has_failed(task)}

    async def close(self) -> None:
        """Close the connections, and the directory unless a broker that is away is waited for."""
        self.is_closed = True
        for task in self._remotes.values():
            task.cancel()
        for remote in self.connected().values():
            await remote.disconnect()
        if self._looks:
            await asyncio.wait(self._looks, timeout=CANCELLED_WITHIN)
        if not self._looks:
            await asyncio.to_thread(self._directory.close)

    async def run(self, steps: Steps[_T]) -> _T:
        """Carry out the steps of a call; return its result."""
        begun: list[asyncio.Task[None]] = []
        try:
            while True:
                self.check()
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
                look = self._begin_look(self._directory.suffix_list) if each.suffix_list else self._read()
                each.result = await asyncio.shield(look)
            else:
                remote = await self.remote(each.address)
                each.result = await remote.transport.run(each.steps)
        except asyncio.CancelledError:
            each.error = silent(each.address) if isinstance(each, Ask) else None
            raise
        except Exception as e:
            each.error = e
        finally:
            each.ended = True

    def _read(self) -> asyncio.Task[Mapping[int, Owner]]:
        """Return the look at the owners that is under way, or has ended just now, or a new one."""
        look = self._looking
        if look is None or (look.done() and (_has_failed(look) or monotonic() >= self._looked_at + JUST_NOW)):
            look = self._looking = self._begin_look(self._owners)
        return look

    def _owners(self) -> Mapping[int, Owner]:
        try:
            return self._directory.read()
        finally:
            self._looked_at = monotonic()

    def _begin_look(self, look: Callable[[], _T]) -> asyncio.Task[_T]:
        task = asyncio.ensure_future(asyncio.to_thread(look))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        task.add_done_callback(_has_failed)
        return task


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
