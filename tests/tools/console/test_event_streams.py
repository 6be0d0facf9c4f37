"""Streams that are not read."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from budgetfrontier.tools.console import event_streams
from budgetfrontier.tools.console.event_streams import EventStreams, Make
from tests.support import PATIENCE


def test_a_stream_that_is_not_read_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "STALLED", 0.05)
    numbers = count()

    async def render(make: Make) -> str:
        return make()

    async def act() -> int:
        made = EventStreams(render, has_ended=lambda request: False)

        async def answer(request: web.Request) -> web.StreamResponse:
            return await made.send(request, lambda: f"{next(numbers)}" * (1 << 20), 0.0)

        app = web.Application()
        app.router.add_get("/", answer)
        async with TestServer(app, handler_cancellation=False) as server:
            _, writer = await asyncio.open_connection(server.host, server.port, limit=1024)  # which reads no more
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                for there in (1, 0):
                    while made.open != there:
                        await asyncio.sleep(0.01)
            writer.close()
        return next(numbers)

    assert asyncio.run(act()) > 0
