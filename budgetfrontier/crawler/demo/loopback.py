"""HTTP servers on a free loopback port, each in its own thread: for the demo, and for tests of crawls."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loopback", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, wait for it, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Cancel the remaining tasks, and end the loop and the thread."""
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Loopback:
    """A server with one handler for all hosts and paths; `address` is "127.0.0.1:port". Use with `with`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.start()
        self.address = f"127.0.0.1:{self._thread.run(self._start())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._end())
        self._thread.stop()

    async def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)
        for _ in range(3):
            await asyncio.sleep(0)  # asyncio leaves a connection open that is accepted, but not made, at the end
        transports = [connection.transport for connection in self._server.connections]
        await self._runner.cleanup()
        for transport in filter(None, transports):
            transport.abort()  # with a client that does not read, it would stay open with unsent data

    async def _start(self) -> int:
        self._server = web.Server(self._handler, access_log=None)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.5)
        await self._runner.setup()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        await web.SockSite(self._runner, self._listening).start()
        port: int = self._listening.getsockname()[1]
        return port


async def _cancel_others() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)  # the sockets of connections are closed in the turn after their end
