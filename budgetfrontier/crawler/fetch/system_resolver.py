"""DNS lookups by the system's resolver, in threads that do not delay the end of the process."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_MOST = 64  # concurrent lookups: each blocks a thread, for long if the name servers of the host are down


class SystemResolver:
    """The methods that aiohttp's `ThreadedResolver` calls on an event loop, run in daemon threads.

    Use within a running loop. A thread pool is not used because its threads delay the end of the loop and of Python by
    up to half a minute, the time that the system's resolver waits for a name server that is down.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_MOST)

    async def getaddrinfo(self, host: str, port: int, **options: Any) -> Any:
        """Call `socket.getaddrinfo` in a thread."""
        return await self._call(partial(socket.getaddrinfo, host, port, **options))

    async def getnameinfo(self, address: Any, flags: int) -> tuple[str, str]:
        """Call `socket.getnameinfo` in a thread."""
        return await self._call(partial(socket.getnameinfo, address, flags))

    async def _call(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._free.release()  # here and not in the awaiting task: after a cancellation, the thread still runs
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = function()
            except BaseException as e:
                error = e
            with suppress(RuntimeError):  # the loop is closed, so that nothing awaits the result
                loop.call_soon_threadsafe(settle, result, error)

        await self._free.acquire()
        try:
            threading.Thread(target=work, name="lookup", daemon=True).start()
        except BaseException as e:
            self._free.release()
            if isinstance(e, RuntimeError):  # the system starts no more threads
                raise OSError(errno.ENOMEM, str(e)) from None
            raise
        return await future
