"""DNS by the system's resolver, in threads that do not delay the end of the process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_MOST = 64  # lookups at a time: each blocks a thread, those of hosts whose name servers are gone for long


class SystemResolver:
    """What aiohttp's `ThreadedResolver` asks of an event loop, done in daemon threads. Use within a running loop.

    The threads of a pool are waited for when the loop ends and when Python exits: up to half a minute, as long as the
    system's resolver waits for a name server that is gone.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_MOST)

    async def getaddrinfo(self, host: str, port: int, **options: Any) -> Any:
        """As `socket.getaddrinfo`."""
        return await self._ask(partial(socket.getaddrinfo, host, port, **options))

    async def getnameinfo(self, address: Any, flags: int) -> tuple[str, str]:
        """As `socket.getnameinfo`."""
        return await self._ask(partial(socket.getnameinfo, address, flags))

    async def _ask(self, question: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._free.release()  # here, not where it was awaited: that may have been cancelled, the thread goes on
            if answer.done():
                return
            if error is None:
                answer.set_result(result)  # type: ignore[arg-type]
            else:
                answer.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = question()
            except BaseException as e:
                error = e
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        await self._free.acquire()
        try:
            threading.Thread(target=work, name="lookup", daemon=True).start()
        except BaseException:
            self._free.release()
            raise
        return await answer
