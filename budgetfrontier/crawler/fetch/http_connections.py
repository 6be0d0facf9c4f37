"""Connections on top of aiohttp's: bounded headers and idle connections, lenient parsing, the peer's address."""

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

from budgetfrontier.crawler.fetch import headers
from budgetfrontier.crawler.fetch.durations import seconds_of_exchange


class HeaderTooLarge(aiohttp.ClientError):
    """The header or trailer of a response is larger than the setting `fetch.max_header`."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the header or trailer is larger than fetch.max_header ({most} bytes)")


class LostConnectionError(aiohttp.ClientConnectionError):
    """The connection was closed before the header of a response was complete; the cause says how.

    After the errors that it raises itself, aiohttp repeats the request at once, whatever the delay of the host; this
    is none of them. `stale` says that the connection had served requests before, and that nothing of a response came:
    most servers close idle connections after a while, so that this says nothing about the URI.
    """

    def __init__(self, *, stale: bool) -> None:
        super().__init__("the connection was lost")
        self.stale = stale


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, with connections that accept at most `max_header` bytes besides the body of a response.

    At most `max_idle` idle connections are kept alive: aiohttp limits only those in use, and in a crawl of many hosts
    the idle ones would use up the file descriptors.
    """

    def __init__(self, *, max_header: int, max_idle: int, **options: Any) -> None:
        super().__init__(**options)
        self._max_idle, self._idle = max_idle, 0
        self._factory = partial(_Handler, self._loop, max_header)  # type: ignore[assignment]

    async def address(self, host: str, port: int) -> str:
        """Return the first address of a host, as a connection looks it up and caches it. Raises as a look-up does."""
        return (await self._resolve_host(host, port))[0]["host"]

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        self._idle += 1  # an upper bound: connections reused or lost are subtracted only when it exceeds the limit
        if self._idle > self._max_idle:
            self._idle = sum(map(len, self._conns.values())) + 1
        super()._release(key, protocol, should_close=should_close or self._idle > self._max_idle)


class HttpExchange:
    """One request on a connection, and its response: `seconds` is the result of `seconds_of_exchange` at its end."""

    __slots__ = ("round_trips", "seconds")

    def __init__(self, round_trips: int) -> None:
        self.round_trips = round_trips
        self.seconds: float | None = None


class AddressedResponse(aiohttp.ClientResponse):
    """aiohttp's response plus the peer's address, the exchange, and the raw header if that had to be repaired.

    They are recorded here because a short response releases its connection, and loses them with it.
    """

    address: str | None = None
    broken_head: bytes | None = None
    exchange: HttpExchange | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        handler = connection.protocol
        if isinstance(handler, _Handler):
            self.exchange = handler.exchange
        if (transport := connection.transport) is not None and (peer := transport.get_extra_info("peername")):
            self.address = peer[0]
        try:
            response = await super().start(connection)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            raise LostConnectionError(stale=isinstance(handler, _Handler) and handler.is_stale) from error
        if isinstance(handler, _Handler):
            self.broken_head = handler.broken_head
        return response


class NoCookies(aiohttp.DummyCookieJar):
    """A cookie jar that keeps no cookies, and does not parse them either."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: yarl.URL) -> None:
        pass


class _Handler(ResponseHandler):
    """One connection, which handles hostile and broken responses that aiohttp's own handler does not.

    - aiohttp limits each header field and their number, and interim responses (1xx) not at all. Here, all bytes before
      a body are counted together, and so are bytes that add nothing to it: trailers, chunk extensions.
    - aiohttp keeps unsolicited responses that follow the requested one. Here, they abort the connection.
    - A body longer than its Content-Length, or garbage after a response, makes aiohttp drop the response too if both
      arrive together. Here, the header is parsed by itself first.
    - Garbage between chunks leaves aiohttp's reader waiting for ever. Here, the reader gets the error.
    - A header that violates HTTP makes aiohttp drop the response. Here, it is buffered until it is complete; if the
      parser refuses it, it is repaired where that is possible, and the connection is closed after the response.
    - aiohttp treats a reset connection as the end of a body without a length, like an orderly close. Here: an error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_header: int) -> None:
        super().__init__(loop)
        self._max_header = max_header
        self._heading = False  # whether a response's header is still expected
        self._received = 0  # bytes since the request was sent, or since the body last grew
        self._body_size = 0
        self._head = bytearray()  # the part received so far
        self._params: dict[str, Any] = {}
        self._requests = 0
        self.exchange = HttpExchange(0)
        self.broken_head: bytes | None = None
        """The raw header of the last response, if it had to be repaired."""

    def set_response_params(self, **params: Any) -> None:
        self._heading, self._received, self._body_size = True, 0, 0
        self._head.clear()
        self._params, self.broken_head = params, None
        self._requests += 1
        self.exchange = HttpExchange(self._round_trips() if self._requests == 1 else 0)
        super().set_response_params(**params)

    def _round_trips(self) -> int:
        """Return how many round trips it took to set the connection up, at least."""
        return 1 if self.transport is None or self.transport.get_extra_info("ssl_object") is None else 2

    @property
    def is_stale(self) -> bool:
        """Whether requests were served before the last one, and no byte has come since that was sent."""
        return self._requests > 1 and not self._received

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
        """Buffer data until a header is complete, parse it, and return the bytes after it."""
        head = self._head
        known = len(head)
        head += data
        if not (b"http/".startswith(head.lstrip(b"\r\n")[:5].lower())):
            end = len(head)  # not HTTP: let the parser refuse it at once
        elif not (end := headers.end(head, known)):
            return b""
        self._parse_head(bytes(head[:end]))
        head.clear()
        return data[end - known :]

    def _parse_head(self, head: bytes) -> None:
        lenient = _LenientParser(self, head)
        self._parser = cast(Any, lenient)
        super().data_received(head)
        if self._parser is not None:
            self._parser = lenient.parser

    def new_parser_for(self, head: bytes) -> Any:
        """Return a new parser for a repaired header, and record the refused one; the connection will be closed."""
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
        else:  # the remaining bytes are the beginning of the body
            self._heading, self._received = False, 0
            data[1].on_eof(self._measure)  # before aiohttp lets the connection go
            super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        if (payload := self._payload) is not None and not payload.is_eof():
            error = aiohttp.ClientPayloadError(str(exc))
            self._loop.call_soon(_fail, payload, error)  # later, so that data received before is read first

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._heading and self._head and self._parser is not None:
            super().data_received(bytes(self._head))  # parsing the incomplete header may give a better error
        if exc is not None and (payload := self._payload) is not None and not payload.is_eof():
            payload.set_exception(aiohttp.ClientOSError(*exc.args))
            self._payload = None
        super().connection_lost(exc)

    def _measure(self) -> None:
        self.exchange.seconds = seconds_of_exchange(self.transport, round_trips=self.exchange.round_trips)

    def _refuse(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        self.set_exception(HeaderTooLarge(self._max_header))


class _LenientParser:
    """A parser for one header: if it refuses the header, it parses a repaired one instead."""

    def __init__(self, handler: _Handler, head: bytes) -> None:
        self._handler, self._head = handler, head
        self.parser: Any = handler._parser

    def feed_data(self, data: bytes) -> Any:
        try:
            return self.parser.feed_data(data)
        except HttpProcessingError:
            repaired = headers.repaired(self._head)
            if repaired is None:
                raise
            self.parser = self._handler.new_parser_for(self._head)
            return self.parser.feed_data(repaired)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


def _size(message: RawResponseMessage) -> int:
    return len(message.reason) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)


def _fail(payload: aiohttp.StreamReader, error: BaseException) -> None:
    if payload.exception() is None and not payload.is_eof():
        payload.set_exception(error)
