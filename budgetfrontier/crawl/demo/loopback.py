"""An aiohttp server on a free loopback port, in a thread of its own: for the demo, and for tests of crawls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Loopback:
    """Serves every host and path with one handler; `address` is its "127.0.0.1:port". Use with `with`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loopback", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.address = f"127.0.0.1:{asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        server = web.Server(self._handler, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _stop(self) -> None:
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:  # answers that nobody waits for any more
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
