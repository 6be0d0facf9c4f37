"""The transport of the asyncio client of a cluster: its connections to workers, and the steps of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
        self._reading = asyncio.Lock()
        self._last_read: tuple[float, Mapping[int, Owner]] = (-JUST_NOW, {})
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
        """Close the connections and the directory."""
        self.is_closed = True
        for task in self._remotes.values():
            task.cancel()
        for remote in self.connected().values():
            await remote.disconnect()
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
                look = asyncio.to_thread(self._directory.suffix_list) if each.suffix_list else self._read()
                each.result = await look
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

    async def _read(self) -> Mapping[int, Owner]:
        async with self._reading:
            at, found = self._last_read
            if monotonic() >= at + JUST_NOW:
                found = await asyncio.to_thread(self._directory.read)
                self._last_read = monotonic(), found
            return found


def _has_failed(task: asyncio.Task[AsyncRemoteFrontier]) -> bool:
    return task.cancelled() or task.exception() is not None
