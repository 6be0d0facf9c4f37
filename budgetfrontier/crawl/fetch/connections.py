"""What aiohttp leaves open: a bound on everything that comes before a body, and where an answer came from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage


class HeaderTooLarge(aiohttp.ClientError):
    """What came before the body is larger than the setting `fetch.max_header`."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the header is larger than fetch.max_header ({most:,} bytes)")


class Connector(aiohttp.TCPConnector):
    """aiohttp's, with connections that take in at most `max_header` bytes before a body."""

    def __init__(self, *, max_header: int, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_Handler, self._loop, max_header)  # type: ignore[assignment]


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
      between a request and the end of its answer's header is counted together.
    - A body longer than its Content-Length, or garbage behind an answer, makes aiohttp drop the answer too if both came
      at once. Here the header goes ahead by itself.
    - Garbage between chunks leaves aiohttp's reader waiting for ever. Here it is told.
    - A connection that is reset ends a body that has no length like one that is closed. Here it is an error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_header: int) -> None:
        super().__init__(loop)
        self._max_header = max_header
        self._received = 0
        self._heading = True

    def set_response_params(self, **params: Any) -> None:
        self._received, self._heading = 0, True
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if not self._heading:
            super().data_received(data)
            return
        self._received += len(data)
        end = data.find(b"\r\n\r\n") + 4
        if 4 <= end < len(data):
            super().data_received(data[:end])
            data = data[end:]
        if self.exception() is None:
            super().data_received(data)
            if self._received > self._max_header and self._heading:
                self._refuse()

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        message = data[0]
        if message.code >= 200 or message.code == 101:
            self._heading = False
            # The body's beginning may have come along: then the header itself has to be measured.
            if self._received > self._max_header and _size(message) > self._max_header:
                self._refuse()
                return
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
        self._heading = False
        if self.transport is not None:
            self.transport.abort()
        self.set_exception(HeaderTooLarge(self._max_header))


def _size(message: RawResponseMessage) -> int:
    return len(message.reason) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)


def _fail(payload: aiohttp.StreamReader, error: BaseException) -> None:
    if payload.exception() is None and not payload.is_eof():
        payload.set_exception(error)
