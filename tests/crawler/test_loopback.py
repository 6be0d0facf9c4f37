"""A server on loopback closes every connection when it ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier.crawler.demo.loopback import Loopback


async def answer(request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_is_accepted_while_the_server_ends_is_closed(turns: int) -> None:
    """Its client connects while the loop is held up, so that it is accepted in the turns in which the server ends."""
    goes_on = threading.Event()
    with Loopback(answer) as server:
        loop: Any = server._thread._loop
        loop.call_soon_threadsafe(goes_on.wait)
        host, _, port = server.address.partition(":")
        client = socket.create_connection((host, int(port)))

        async def later() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await end()

        end, server._end = server._end, later  # type: ignore[method-assign]
        threading.Timer(0.05, goes_on.set).start()
    client.close()
    del server, loop
    gc.collect()  # a transport that is left open warns, which fails the test
