"""What aiohttp leaves open: a bound on everything that comes before a body, and where an answer came from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage


class HeaderTooLarge(aiohttp.ClientError):
    """What came before or after the body is larger than the setting `fetch.max_header`."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the header or trailer is larger than fetch.max_header ({most} bytes)")


class Connector(aiohttp.TCPConnector):
    """aiohttp's, with connections that take in at most `max_header` bytes that are no body.

    At most `max_idle` connections are kept for the next fetch from their host: aiohttp bounds those in use only, and in
    a crawl of many hosts the idle ones would use up the file descriptors.
    """

    def __init__(self, *, max_header: int, max_idle: int, **options: Any) -> None:
        super().__init__(**options)
        self._max_idle, self._idle = max_idle, 0
        self._factory = partial(_Handler, self._loop, max_header)  # type: ignore[assignment]

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        self._idle += 1  # at the most: those that were used again, or lost, are taken off only when it matters
        if self._idle > self._max_idle:
            self._idle = sum(map(len, self._conns.values())) + 1
        super()._release(key, protocol, should_close=should_close or self._idle > self._max_idle)


class Response(aiohttp.ClientResponse):
    """aiohttp's, and the address that it came from: a short answer has given its connection back before one can ask."""

    address: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        if (transport := connection.transport) is not None and (peer := transport.get_extra_info("peername")):
            self.address = peer[0]
        return await super().start(connection)


class NoCookies(aiohttp.DummyCookieJar):
    """Keeps no cookies, and does not even parse them."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: yarl.URL) -> None:
        pass


class _Handler(ResponseHandler):
    """One connection, with what aiohttp's leaves open.

    - aiohttp bounds each header field and their number, and interim answers (1xx) not at all. Here all that comes
      before a body is counted together, and so is all that brings none: trailers, chunk extensions.
    - Answers that nobody asked for, behind the one that somebody did, would be kept. Here they end the connection.
    - A body longer than its Content-Length, or garbage behind an answer, makes aiohttp drop the answer too if both came
      at once. Here the header goes ahead by itself.
    - Garbage between chunks leaves aiohttp's reader waiting for ever. Here it is told.
    - A connection that is reset ends a body that has no length like one that is closed. Here it is an error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_header: int) -> None:
        super().__init__(loop)
        self._max_header = max_header
        self._heading = False  # whether an answer's header is still to come
        self._received = 0  # bytes since the request was sent, or the body grew last
        self._body_size = 0

    def set_response_params(self, **params: Any) -> None:
        self._heading, self._received, self._body_size = True, 0, 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._heading:
            end = data.find(b"\r\n\r\n") + 4
            if 4 <= end < len(data):
                super().data_received(data[:end])
                if self.exception() is not None:
                    return
                data = data[end:]
        super().data_received(data)
        if self._payload is not None and self._payload.total_bytes != self._body_size:
            self._body_size, self._received = self._payload.total_bytes, 0
        elif self._received > self._max_header:
            self._refuse()

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        message = data[0]
        if not self._heading:
            self.abort()
        elif 100 <= message.code < 200 and message.code != 101:
            super().feed_data(data, size)
        elif self._received > self._max_header and _size(message) > self._max_header:
            self._refuse()
        else:  # more than that may have come, but it is the body's beginning
            self._heading, self._received = False, 0
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        if (payload := self._payload) is not None and not payload.is_eof():
            error = aiohttp.ClientPayloadError(str(exc))
            self._loop.call_soon(_fail, payload, error)  # later: what is there already is read first

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is not None and (payload := self._payload) is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientOSError(*exc.args))
            self._payload = None
        super().connection_lost(exc)

    def _refuse(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        self.set_exception(HeaderTooLarge(self._max_header))


def _size(message: RawResponseMessage) -> int:
    return len(message.reason) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)


def _fail(payload: aiohttp.StreamReader, error: BaseException) -> None:
    if payload.exception() is None and not payload.is_eof():
        payload.set_exception(error)
