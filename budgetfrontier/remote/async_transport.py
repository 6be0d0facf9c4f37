"""The transport of the asyncio client: sends messages, some at a time, and repeats lost ones."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, TypeVar

import grpc
import grpc.aio

from budgetfrontier.core import protocol
from budgetfrontier.remote import link
from budgetfrontier.remote.calls import Rpc, Steps, Train

_T = TypeVar("_T")


class AsyncTransport:
    """Makes calls over the channel of one client, for one event loop. A call ends with the task that makes it."""

    def __init__(self, session: link.Link) -> None:
        self._link = session

    def open(self) -> None:
        """Open the channel, unless that was done. It connects with the first call."""
        self._link.open(grpc.aio.secure_channel, grpc.aio.insecure_channel)

    def check(self) -> None:
        """Raise FrontierClosed if no call can be made."""
        self._link.check()

    async def close(self) -> None:
        """Close the channel. A second call does nothing."""
        if not self._link.is_closed:
            self._link.is_closed = True
            if self._link.channel is not None:
                await self._link.channel.close()

    async def run(self, steps: Steps[_T]) -> _T:
        """Send the messages that a call of `calls` yields, and return its result."""
        self._link.check()
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
                return self._link.answered(rpc, number, await self._reply(self._begin(rpc, body)))
            except grpc.RpcError as failure:
                self._link.raise_error(number, failure)
                passed = time.monotonic() - began
                if rpc.method is protocol.CONNECT:
                    await asyncio.to_thread(self._link.connecting.check, failure)
                if passed >= self._link.retry_for:
                    raise self._link.lost(rpc, failure, passed) from None
                self._link.connecting.waiting(failure, self._link.retry_for - passed)
            await asyncio.sleep(min(pause, max(0.0, self._link.retry_for - passed)))
            pause = min(2 * pause, link.LONGEST_PAUSE)

    def _begin(self, rpc: Rpc, body: bytes) -> Any:
        """Send a call; return the awaitable of its reply. Raises FrontierClosed."""
        self._link.check()
        return self._link.stubs[rpc.method](body, timeout=self._link.timeout_of(rpc), metadata=self._link.metadata)

    async def _reply(self, begun: Any) -> bytes:
        """Return the reply to a call that was sent. Raises FrontierClosed if the client is closed meanwhile."""
        try:
            reply: bytes = await begun
        except asyncio.CancelledError:  # closing the channel raises it in tasks that nobody has cancelled
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                self._link.check()
            raise
        return reply

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
            return self._link.answered(rpc, number, await self._reply(begun))
        except grpc.RpcError as failure:
            self._link.raise_error(number, failure)
            self._link.connecting.waiting(failure, self._link.retry_for)
        return await self._tried(rpc, number)
