"""The servers on loopback that the demo and tests use."""

from __future__ import annotations

import gc
import socket

from aiohttp import web

from budgetfrontier.crawler.demo.loopback import Loopback


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=bytes(20_000_000))


def test_the_connection_of_a_client_that_does_not_read_is_closed_with_the_server() -> None:
    with Loopback(answer) as server:
        host, _, port = server.address.partition(":")
        client = socket.create_connection((host, int(port)))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert client.recv(1) == b"H"
    with client:
        gc.collect()  # an open socket would be reported, and fail this test
        try:
            while client.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass
