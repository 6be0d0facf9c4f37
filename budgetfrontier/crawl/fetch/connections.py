"""What aiohttp leaves open: a bound on everything that comes before a body, and where an answer came from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError

from budgetfrontier.crawl.fetch import headers


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


class AddressedResponse(aiohttp.ClientResponse):
    """aiohttp's response with the peer's address, and its header as it was sent if that had to be mended.

    Both are lost once a short response has released its connection.
    """

    address: str | None = None
    broken_head: bytes | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        handler = connection.protocol
        if (transport := connection.transport) is not None and (peer := transport.get_extra_info("peername")):
            self.address = peer[0]
        response = await super().start(connection)
        if isinstance(handler, _Handler):
            self.broken_head = handler.broken_head
        return response


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
    - A header that is not as HTTP has it loses the answer. Here it waits until it is whole, and what the parser refuses
      is mended, if it can be; the connection is closed then.
    - A connection that is reset ends a body that has no length like one that is closed. Here it is an error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_header: int) -> None:
        super().__init__(loop)
        self._max_header = max_header
        self._heading = False  # whether an answer's header is still to come
        self._received = 0  # bytes since the request was sent, or the body grew last
        self._body_size = 0
        self._head = bytearray()  # as far as it has come
        self._params: dict[str, Any] = {}
        self.broken_head: bytes | None = None
        """The header of the last answer as it was sent, if it had to be mended."""

    def set_response_params(self, **params: Any) -> None:
        self._heading, self._received, self._body_size = True, 0, 0
        self._head.clear()
        self._params, self.broken_head = params, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        while self._heading and data:
            data = self._receive_head(data)
            if self.exception() is not None:
                return
        if data:
            super().data_received(data)
        if self._payload is not None and self._payload.total_bytes != self._body_size:
            self._body_size, self._received = self._payload.total_bytes, 0
        elif self._received > self._max_header:
            self._refuse()

    def _receive_head(self, data: bytes) -> bytes:
        """Read on until a header is whole, and return what comes after it."""
        head = self._head
        known = len(head)
        head += data
        if not (b"http/".startswith(head.lstrip(b"\r\n")[:5].lower())):
            end = len(head)  # no use to wait
        elif not (end := headers.end(head, known)):
            return b""
        self._parse_head(bytes(head[:end]))
        head.clear()
        return data[end - known :]

    def _parse_head(self, head: bytes) -> None:
        tolerant = _Tolerant(self, head)
        self._parser = cast(Any, tolerant)
        super().data_received(head)
        if self._parser is not None:
            self._parser = tolerant.parser

    def mend(self, head: bytes) -> Any:
        """Return a new parser, after one has refused a header that can be mended."""
        self.broken_head = head
        super().set_response_params(**self._params)
        self.force_close()
        return self._parser

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
        if self._heading and self._head and self._parser is not None:
            super().data_received(bytes(self._head))  # it may say why
        if exc is not None and (payload := self._payload) is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientOSError(*exc.args))
            self._payload = None
        super().connection_lost(exc)

    def _refuse(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        self.set_exception(HeaderTooLarge(self._max_header))


class _Tolerant:
    """A parser for one header: what it refuses, it is given once more, mended."""

    def __init__(self, handler: _Handler, head: bytes) -> None:
        self._handler, self._head = handler, head
        self.parser: Any = handler._parser

    def feed_data(self, data: bytes) -> Any:
        try:
            return self.parser.feed_data(data)
        except HttpProcessingError:
            mended = headers.mended(self._head)
            if mended is None:
                raise
            self.parser = self._handler.mend(self._head)
            return self.parser.feed_data(mended)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


def _size(message: RawResponseMessage) -> int:
    return len(message.reason) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)


def _fail(payload: aiohttp.StreamReader, error: BaseException) -> None:
    if payload.exception() is None and not payload.is_eof():
        payload.set_exception(error)
