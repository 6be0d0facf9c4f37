"""One fetch: a request goes out, a Response comes back, whatever the network does. No redirect is followed here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import TracebackType
from typing import Any, Self

import aiohttp
import yarl
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import ContentLengthError, TransferEncodingError
from multidict import CIMultiDict, CIMultiDictProxy

from budgetfrontier.crawl.fetch import encodings
from budgetfrontier.crawl.fetch.addresses import PrivateAddressError, Resolver, check_literal, exempt
from budgetfrontier.crawl.fetch.connections import AddressedResponse, Connector, HeaderTooLarge, NoCookies
from budgetfrontier.crawl.fetch.descriptors import most_idle
from budgetfrontier.crawl.fetch.headers import fields
from budgetfrontier.crawl.fetch.ports import BlockedPortError, check_port
from budgetfrontier.crawl.fetch.requests import Requests, proxy_of, tell
from budgetfrontier.crawl.fetch.response import (
    BLOCKED,
    BROKEN,
    CONNECT_FAILED,
    CONNECTION_LOST,
    DNS_FAILED,
    TIMED_OUT,
    Response,
)
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.schema import FetchSettings

Accept = Callable[[Response], str | None]

WINDOW = 20.0
"""The seconds over which `min_speed` is measured."""

_DNS_CACHE = 10_000  # hosts
_RECEIVED_AT_ONCE = 1024**2  # or less: asyncio takes 256 KiB
_PROXY_MAY_RECOVER = (407, 408, 429)  # wrong credentials among them: nobody wants to lose a crawl to these
_BLOCKED = (PrivateAddressError, BlockedPortError)
_NOTHING: Mapping[str, str] = {}


class Fetcher:
    """HTTP for the crawl: one session, no cookies kept, no redirects, bounded in time and size. Use with `async with`.

    `seeds` are URLs; those whose host is localhost, or written as an address, may be at a private one, and those that
    name a blocked port at that port. Raises SettingsError, before anything is fetched, if an environment variable that
    the settings name is not set.

    Time: a connection has to be there within `connect_timeout` (DNS and TLS included), the answer's header within
    `first_byte_timeout`, all of it within `timeout`, each from the beginning of the fetch. Of the body, each
    `min_speed` times 20 bytes have to come within 20 seconds of those before: an answer may start slowly, or pause,
    for that long.
    """

    def __init__(self, settings: FetchSettings, *, seeds: Iterable[str] = ()) -> None:
        self._settings = settings
        self._requests = Requests(settings.requests)
        self._proxy = proxy_of(settings.proxy)
        meant = exempt(seeds)
        self._allowed, self._ports = None if settings.allow_private else meant.local, meant.ports
        whole, first = settings.timeout or None, settings.first_byte_timeout or None
        self._whole, self._first = whole, min(filter(None, (whole, first)), default=None)
        self._block = settings.min_speed * WINDOW

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        # Behind a proxy, it is the proxy that looks up names; only its own is asked for here.
        resolver = Resolver({}) if self._proxy else Resolver(settings.resolve, allowed=self._allowed)
        self._session = aiohttp.ClientSession(
            connector=Connector(
                max_header=settings.max_header,
                max_idle=most_idle(settings.concurrency),
                limit=settings.concurrency,
                resolver=resolver,
                use_dns_cache=settings.dns_ttl > 0,
                ttl_dns_cache=settings.dns_ttl,
                dns_cache_max_size=_DNS_CACHE,
                ssl=settings.verify_tls,
            ),
            cookie_jar=NoCookies(),
            headers={
                "User-Agent": settings.user_agent,
                "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
                "Accept-Encoding": encodings.ACCEPTED,
            },
            timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout or None),
            auto_decompress=False,
            response_class=AddressedResponse,
            proxy=self._proxy and self._proxy.url,
            # The connection counts the header as a whole, and is asked first; these would count each field by itself.
            max_line_size=settings.max_header + _RECEIVED_AT_ONCE,
            max_field_size=settings.max_header + _RECEIVED_AT_ONCE,
            max_headers=settings.max_header + _RECEIVED_AT_ONCE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def refusal(self, href: str) -> Response | None:
        """Return the answer to a URL of a blocked port or a host written as a private address; else None."""
        try:
            self._check(href)
        except (PrivateAddressError, BlockedPortError) as error:
            return Response(status=BLOCKED, reason=_words(error))
        return None

    def _check(self, href: str) -> None:
        if self._allowed is not None:
            check_literal(href, self._allowed, proxied=self._proxy is not None)
        check_port(href, self._ports)

    async def get(self, uri: CrawlUri, *, max_body: int | None = None, accept: Accept | None = None) -> Response:
        """Fetch a URI (its url a normalized href) and return what came of it; raises nothing but cancellation.

        Reads at most `max_body` bytes (None: the setting; 0 is no limit), compressed or not. `accept` is asked once
        the header is in; a text that it returns, the reason, ends the fetch there.
        """
        loop = self._loop
        begin = loop.time()
        answer = Response(status=0, started=time.time())
        try:
            async with asyncio.timeout_at(begin + self._first if self._first else None) as clock:
                response = await self._send(uri, answer)
                try:
                    if accept is not None and (reason := accept(answer)) is not None:
                        answer.notes.append("midFetchAbort")
                        answer.reason = reason
                    else:
                        limit = self._settings.max_body if max_body is None else max_body
                        await self._read(response, answer, limit, clock, begin + self._whole if self._whole else None)
                finally:
                    if not response.closed:
                        response.close()  # its connection too, as there is more to come
        except TimeoutError as error:  # aiohttp's own time-outs are among them
            if answer.status:
                answer.notes.append("timeTrunc")
                whole = self._whole is not None and loop.time() >= begin + self._whole
                answer.reason = "longer than fetch.timeout" if whole else "slower than fetch.min_speed"
            else:
                self._fail(answer, error)
        except Exception as error:  # aiohttp's, the system's, and whatever hostile input may still bring about
            self._fail(answer, error)
        answer.seconds = loop.time() - begin
        return answer

    async def _send(self, uri: CrawlUri, answer: Response) -> AddressedResponse:
        """Send the request, wait for the header and note what it says."""
        self._check(uri.url)
        url = yarl.URL(uri.url, encoded=True)
        options: dict[str, Any] = {"allow_redirects": False}
        headers, told = uri.headers, _NOTHING
        if self._requests or self._proxy:
            headers, told = self._extra_headers(uri, options)
            if "authorization" in told:
                url = url.with_user(None)  # a setting wins over what a link says
        if headers:
            options["headers"] = headers
        if uri.body:
            options["data"] = uri.body
        response = await self._session.request(uri.method, url, **options)
        assert isinstance(response, AddressedResponse)
        if response.status < 100:
            response.close()
            raise ValueError(f"{response.status} is no HTTP status")
        if response.status == 407 and self._proxy:  # RFC 9110, section 15.5.8: no host says that, only the proxy
            response.close()
            raise aiohttp.ClientHttpProxyError(response.request_info, (), status=407, message=response.reason or "")
        answer.status, answer.headers = response.status, response.headers
        answer.raw_headers = response.raw_headers
        if (head := response.broken_head) is not None:
            answer.notes.append("badHeader")
            answer.reason = "the header breaks rules of HTTP/1.1"
            answer.raw_headers = fields(head) or ()
        answer.phrase = response.reason or ""
        if response.version is not HttpVersion11 and response.version is not None:
            answer.version = f"{response.version.major}.{response.version.minor}"
        if not (answer.phrase.isascii() and b"".join(chain.from_iterable(response.raw_headers)).isascii()):
            answer.phrase = _text(answer.phrase.encode(errors="surrogateescape"))
            answer.headers = CIMultiDictProxy(CIMultiDict((_text(name), _text(v)) for name, v in response.raw_headers))
        sent = response.request_info.headers.items()
        answer.request_headers = tell(sent, told) if told or uri.headers or "@" in uri.url else tuple(sent)
        if not self._proxy:
            answer.address = response.address
        return response

    def _extra_headers(self, uri: CrawlUri, options: dict[str, Any]) -> tuple[dict[str, str], Mapping[str, str]]:
        headers, told = self._requests.headers(uri.url)
        if self._proxy and self._proxy.authorization:
            secret = {"Proxy-Authorization": self._proxy.authorization}
            if uri.url.startswith("https:"):
                options["proxy_headers"] = secret  # for the proxy's ears only: the request itself goes through a tunnel
            else:
                headers |= secret
                told |= {"proxy-authorization": "-"}
        return headers | (uri.headers or {}), told

    async def _read(
        self, response: AddressedResponse, answer: Response, limit: int, clock: asyncio.Timeout, end: float | None
    ) -> None:
        """Read the body; what was read is kept even if it ends badly."""
        content = response.content
        encoding = ", ".join(response.headers.getall("Content-Encoding", ()))
        if "Transfer-Encoding" in response.headers:
            encoding = encodings.both(encoding, response.headers.getall("Transfer-Encoding"))
        first = content.read_nowait() if content.is_eof() else None
        if first is not None and not encoding and (not limit or len(first) <= limit):
            answer.body = answer.raw = first  # most pages that are short: all of it came along with the header
            return
        body = encodings.Body(encoding, limit=limit, max_expansion=self._settings.max_expansion)
        complete = False
        try:
            if first is not None:
                body.feed(first)
            else:
                await self._receive(content, body, clock, end)
            complete = True
        except aiohttp.ClientPayloadError as error:
            if not body.received:
                raise
            answer.notes.append("connTrunc")
            answer.reason = _words(error)
        finally:
            answer.raw, answer.body = body.end(complete=complete)
            answer.notes += body.notes
            answer.reason = answer.reason or body.problem
        if "badEncoding" in body.notes and not answer.body:
            answer.status = BROKEN

    async def _receive(
        self, content: aiohttp.StreamReader, body: encodings.Body, clock: asyncio.Timeout, end: float | None
    ) -> None:
        """Feed the body what comes in, as long as it comes fast enough."""
        block, came = self._block, 0.0
        clock.reschedule(self._next(end))
        while (chunk := await content.readany()) and body.feed(chunk):
            came += len(chunk)
            if came >= block:
                came = 0.0
                clock.reschedule(self._next(end))

    def _next(self, end: float | None) -> float | None:
        """Return when to give up on the next block of a body."""
        if not self._block:
            return end
        slow = self._loop.time() + WINDOW
        return slow if end is None else min(slow, end)

    def _fail(self, answer: Response, error: Exception) -> None:
        """Turn an answer into a failure: its code says whose fault it seems."""
        answer.status = _status(error)
        if type(error) is TimeoutError:
            name = "timeout" if self._first == self._whole else "first_byte_timeout"
            answer.reason = f"no answer within {self._first:g} s (fetch.{name})"
            return
        if isinstance(error, HeaderTooLarge):
            answer.notes.append("headerTrunc")
        if isinstance(error, aiohttp.ClientConnectorDNSError) and isinstance(error.__cause__, PrivateAddressError):
            error = error.__cause__
        answer.reason = self._requests.scrub(_words(error))


def _status(error: Exception) -> int:
    if isinstance(error, _BLOCKED) or isinstance(error.__cause__, PrivateAddressError):
        return BLOCKED
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return DNS_FAILED
    if isinstance(error, aiohttp.ClientSSLError):
        return BROKEN
    if isinstance(error, aiohttp.ClientHttpProxyError):  # 403 and its like: it does not want to, and never will
        return CONNECT_FAILED if error.status >= 500 or error.status in _PROXY_MAY_RECOVER else BROKEN
    if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        return CONNECT_FAILED
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, (aiohttp.ClientConnectionError, OSError)):
        return CONNECTION_LOST
    if isinstance(error, aiohttp.ClientPayloadError):
        return CONNECTION_LOST if isinstance(error.__cause__, (ContentLengthError, TransferEncodingError)) else BROKEN
    return BROKEN


def _words(error: Exception) -> str:
    """Return what an error says, in one line, with its type unless it is ours."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "ServerDisconnectedError: the server closed the connection before its answer's end"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy said {error.status} {' '.join(error.message.split())}"[:300].rstrip()
    text = " ".join((error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)).split())
    ours = isinstance(error, (*_BLOCKED, HeaderTooLarge))
    return text if ours else f"{type(error).__name__}: {text}".rstrip(": ")[:300]


def _text(value: bytes) -> str:
    """Decode what stands in a header: it ought to be ASCII, often is UTF-8, and else Latin-1 never fails."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
