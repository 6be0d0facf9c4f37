"""The fetcher: one request per call, with a FetchResult for each failure of a site, too. It follows no redirects."""

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

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.fetch import encodings, shortages
from budgetfrontier.crawler.fetch.descriptors import most_idle
from budgetfrontier.crawler.fetch.headers import fields
from budgetfrontier.crawler.fetch.http_connections import (
    AddressedResponse,
    Connector,
    HeaderTooLarge,
    HttpExchange,
    LostConnectionError,
    NoCookies,
)
from budgetfrontier.crawler.fetch.ports import BlockedPortError, check_port
from budgetfrontier.crawler.fetch.refusals import PrivateAddressError, check_literal, exempt_endpoints
from budgetfrontier.crawler.fetch.request_additions import Requests, proxy_of, redact
from budgetfrontier.crawler.fetch.resolver import Resolver
from budgetfrontier.crawler.fetch.response import (
    BLOCKED,
    BROKEN,
    CONNECT_FAILED,
    CONNECTION_LOST,
    DNS_FAILED,
    TIMED_OUT,
    TLS,
    FetchResult,
)
from budgetfrontier.rules.requests import request_objection
from budgetfrontier.settings.schema import FetchSettings

Accept = Callable[[FetchResult], str | None]

WINDOW = 20.0
"""The seconds over which `min_speed` is measured."""

_DNS_CACHE = 10_000  # hosts
_RECEIVED_AT_ONCE = 1024**2  # an upper bound: asyncio receives 256 KiB at a time
_PROXY_MAY_RECOVER = (407, 408, 429)  # retried; 407 too, so that wrong credentials do not fail the whole crawl
_BLOCKED = (PrivateAddressError, BlockedPortError)
_NOTHING: Mapping[str, str] = {}


class Fetcher:
    """The HTTP client of a crawl: no cookies kept, no redirects followed, limited time and size. Use with `async with`.

    `seeds` are URLs exempt from two rules: a seed on localhost or an IP address may have a private address, and a seed
    that names a blocked port may use it. Raises SettingsError, before anything is fetched, if an environment variable
    named in the settings is not set. `accepted` are the content encodings that requests offer to servers.

    Timeouts, each from the start of the fetch: `connect_timeout` for the connection (DNS and TLS included),
    `first_byte_timeout` for the response header, `timeout` for all of it. Each `min_speed` * 20 bytes of the body have
    to arrive within 20 seconds of the previous ones: a response may start slowly, or pause, for that long.
    """

    def __init__(
        self, settings: FetchSettings, *, seeds: Iterable[str] = (), accepted: str = encodings.ACCEPTED
    ) -> None:
        self._settings, self._accepted = settings, accepted
        self._requests = Requests(settings.requests)
        self._proxy = proxy_of(settings.proxy)
        exemptions = exempt_endpoints(seeds)
        self._allowed, self._ports = None if settings.allow_private else exemptions.local, exemptions.ports
        whole, first = settings.timeout or None, settings.first_byte_timeout or None
        self._whole, self._first = whole, min(filter(None, (whole, first)), default=None)
        self._block = settings.min_speed * WINDOW

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        # With a proxy, the proxy resolves host names; only its own name is resolved here.
        resolver = Resolver({}) if self._proxy else Resolver(settings.resolve, allowed=self._allowed)
        self._connector = Connector(
            max_header=settings.max_header,
            max_idle=most_idle(settings.concurrency),
            limit=settings.concurrency,
            resolver=resolver,
            use_dns_cache=settings.dns_ttl > 0,
            ttl_dns_cache=settings.dns_ttl,
            dns_cache_max_size=_DNS_CACHE,
            ssl=settings.verify_tls,
        )
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=NoCookies(),
            headers={
                "User-Agent": settings.user_agent,
                "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
                "Accept-Encoding": self._accepted,
            },
            timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout or None),
            auto_decompress=False,
            response_class=AddressedResponse,
            proxy=self._proxy and self._proxy.url,
            # The connection limits the header as a whole, and applies first; aiohttp would limit each field by itself.
            max_line_size=settings.max_header + _RECEIVED_AT_ONCE,
            max_field_size=settings.max_header + _RECEIVED_AT_ONCE,
            max_headers=settings.max_header + _RECEIVED_AT_ONCE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def refusal(self, href: str) -> FetchResult | None:
        """Return the FetchResult for a URL with a blocked port or a private IP address; else None."""
        try:
            self._check(href)
        except (PrivateAddressError, BlockedPortError) as error:
            return FetchResult(status=BLOCKED, reason=_message(error))
        return None

    def _check(self, href: str) -> None:
        if self._allowed is not None:
            check_literal(href, self._allowed, proxied=self._proxy is not None)
        check_port(href, self._ports)

    @property
    def resolves(self) -> bool:
        """Whether the addresses of hosts are looked up here, and not by a proxy."""
        return self._proxy is None

    async def address(self, href: str) -> str | None:
        """Return the IP address that a normalized href would be fetched from; None if none is found."""
        url = yarl.URL(href, encoded=True)
        try:
            async with asyncio.timeout(self._settings.connect_timeout or None):
                return await self._connector.address(url.raw_host or "", url.port or 0)
        except Exception:  # the system's, and any that a hostile name may cause: the fetch itself says which
            return None

    async def get(self, uri: CrawlUri, *, max_body: int | None = None, accept: Accept | None = None) -> FetchResult:
        """Fetch a URI (its url a normalized href) and return the FetchResult.

        Raises PutBack for a shortage of this machine, and otherwise nothing but CancelledError.

        Reads at most `max_body` bytes of a robots.txt, or as the setting says (None), compressed or not. `accept` is
        called when the header has arrived; if it returns a reason, the fetch ends without the body ("midFetchAbort").
        """
        loop = self._loop
        begin = loop.time()
        exchange: HttpExchange | None = None
        response = FetchResult(status=0, started=time.time())
        try:
            async with asyncio.timeout_at(begin + self._first if self._first else None) as clock:
                client_response = await self._send(uri, response)
                exchange = client_response.exchange
                try:
                    if accept is not None and (reason := accept(response)) is not None:
                        response.notes.append("midFetchAbort")
                        response.reason = reason
                    else:
                        await self._read(
                            client_response, response, max_body, clock, begin + self._whole if self._whole else None
                        )
                finally:
                    if not client_response.closed:
                        client_response.close()  # closes the connection too, because unread data remains
        except TimeoutError as error:  # includes aiohttp's own timeouts
            if response.status:
                response.notes.append("timeTrunc")
                whole = self._whole is not None and loop.time() >= begin + self._whole
                response.reason = "longer than fetch.timeout" if whole else "slower than fetch.min_speed"
            else:
                self._fail(response, error)
        except Exception as error:  # aiohttp's, the system's, and any that hostile input may cause
            if (back := shortages.put_back(error)) is not None:
                raise back from None
            self._fail(response, error)
        response.seconds = loop.time() - begin
        if exchange is not None and exchange.seconds is not None and not self._proxy:
            response.seconds = min(response.seconds, exchange.seconds)  # without the time this process was busy
        return response

    async def _send(self, uri: CrawlUri, response: FetchResult) -> AddressedResponse:
        """Send the request, wait for the header, and record it in `response`."""
        self._check(uri.url)
        url = yarl.URL(uri.url, encoded=True)
        options: dict[str, Any] = {"allow_redirects": False}
        headers, redacted = uri.headers, _NOTHING
        if self._requests or self._proxy:
            headers, redacted = self._extra_headers(uri, options)
            if "authorization" in redacted:
                url = url.with_user(None)  # `fetch.requests` takes precedence over the credentials in a link
        if (headers or uri.method != "GET") and (objection := request_objection(uri)):
            raise ValueError(objection)
        if headers:
            options["headers"] = headers
        if uri.body:
            options["data"] = uri.body
        client_response = await self._session.request(uri.method, url, **options)
        assert isinstance(client_response, AddressedResponse)
        if client_response.status < 100:
            client_response.close()
            raise ValueError(f"{client_response.status} is not an HTTP status")
        if client_response.status == 407 and self._proxy:  # sent by the proxy: RFC 9110, section 15.5.8
            client_response.close()
            raise aiohttp.ClientHttpProxyError(
                client_response.request_info, (), status=407, message=client_response.reason or ""
            )
        response.status, response.headers = client_response.status, client_response.headers
        response.raw_headers = client_response.raw_headers
        if (head := client_response.broken_head) is not None:
            response.notes.append("badHeader")
            response.reason = "the header breaks rules of HTTP/1.1"
            response.raw_headers = fields(head) or ()
        response.phrase = client_response.reason or ""
        if client_response.version is not HttpVersion11 and client_response.version is not None:
            response.version = f"{client_response.version.major}.{client_response.version.minor}"
        if not (response.phrase.isascii() and b"".join(chain.from_iterable(client_response.raw_headers)).isascii()):
            response.phrase = _decode_header(response.phrase.encode(errors="surrogateescape"))
            response.headers = CIMultiDictProxy(
                CIMultiDict((_decode_header(name), _decode_header(v)) for name, v in client_response.raw_headers)
            )
        sent = client_response.request_info.headers.items()
        response.request_headers = redact(sent, redacted) if redacted or uri.headers or "@" in uri.url else tuple(sent)
        if not self._proxy:
            response.address = client_response.address
        return client_response

    def _extra_headers(self, uri: CrawlUri, options: dict[str, Any]) -> tuple[dict[str, str], Mapping[str, str]]:
        headers, redacted = self._requests.headers(uri.url, uri.source)
        if self._proxy and self._proxy.authorization:
            secret = {"Proxy-Authorization": self._proxy.authorization}
            if uri.url.startswith("https:"):
                options["proxy_headers"] = secret  # only for the proxy: the request itself goes through a tunnel
            else:
                headers |= secret
                redacted |= {"proxy-authorization": "-"}
        return headers | (uri.headers or {}), redacted

    async def _read(
        self,
        client_response: AddressedResponse,
        response: FetchResult,
        max_body: int | None,
        clock: asyncio.Timeout,
        end: float | None,
    ) -> None:
        """Read the body into `response`; the part received before an error is kept."""
        limit, name = self._settings.max_body, "fetch.max_body"
        if max_body is not None:
            limit, name = max_body, "what is read of a robots.txt"
        content = client_response.content
        encoding = ", ".join(client_response.headers.getall("Content-Encoding", ()))
        if "Transfer-Encoding" in client_response.headers:
            encoding = encodings.combined(encoding, client_response.headers.getall("Transfer-Encoding"))
        first = content.read_nowait() if content.is_eof() else None
        if first is not None and not encoding and (not limit or len(first) <= limit):
            response.body = response.raw = first  # most short pages: the whole body arrived with the header
            return
        body = encodings.Body(encoding, limit=limit, max_expansion=self._settings.max_expansion, limit_name=name)
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
            response.notes.append("connTrunc")
            response.reason = _message(error)
        finally:
            response.raw, response.body = body.end(complete=complete)
            response.notes += body.notes
            response.reason = response.reason or body.problem
        if "badEncoding" in body.notes and not response.body:
            response.status = BROKEN

    async def _receive(
        self, content: aiohttp.StreamReader, body: encodings.Body, clock: asyncio.Timeout, end: float | None
    ) -> None:
        """Feed received data to the body; `clock` is moved on as long as data arrives fast enough."""
        block, received = self._block, 0.0
        clock.reschedule(self._next(end))
        while (chunk := await content.readany()) and body.feed(chunk):
            received += len(chunk)
            if received >= block:
                received = 0.0
                clock.reschedule(self._next(end))

    def _next(self, end: float | None) -> float | None:
        """Return when (in the loop's time) to time out unless the next block of the body has arrived."""
        if not self._block:
            return end
        slow = self._loop.time() + WINDOW
        return slow if end is None else min(slow, end)

    def _fail(self, response: FetchResult, error: Exception) -> None:
        """Make a response a failure, with the status code for `error` and the reason in words."""
        if isinstance(error, LostConnectionError):
            response.stale = error.stale
        response.status = _status(error)
        if type(error) is TimeoutError:
            name = "timeout" if self._first == self._whole else "first_byte_timeout"
            response.reason = f"no answer within {self._first:g} s (fetch.{name})"
            return
        if isinstance(error, HeaderTooLarge):
            response.notes.append("headerTrunc")
        if isinstance(error, aiohttp.ClientConnectorDNSError) and isinstance(error.__cause__, PrivateAddressError):
            error = error.__cause__
        response.reason = self._requests.scrub(_message(error))


def _status(error: Exception) -> int:
    if isinstance(error, _BLOCKED) or isinstance(error.__cause__, PrivateAddressError):
        return BLOCKED
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return DNS_FAILED
    if isinstance(error, aiohttp.ClientSSLError):
        return BROKEN
    if isinstance(error, aiohttp.ClientHttpProxyError):  # 403 and the like: the proxy refuses for good
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


def _message(error: Exception) -> str:
    """Return the message of an error in one line, with its type unless it is an error of this package."""
    if isinstance(error, LostConnectionError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "ServerDisconnectedError: the server closed the connection before its answer's end"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy said {error.status} {' '.join(error.message.split())}"[:300].rstrip()
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"{TLS}certificate not trusted: {why.rstrip('.')}; fetch.verify_tls: false accepts any"
    if isinstance(error, aiohttp.ClientSSLError):
        cause = error.__cause__
        return f"{TLS}no agreement with the server: {getattr(cause, 'reason', None) or cause or error}"[:300]
    text = " ".join((error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)).split())
    ours = isinstance(error, (*_BLOCKED, HeaderTooLarge))
    return text if ours else f"{type(error).__name__}: {text}".rstrip(": ")[:300]


def _decode_header(value: bytes) -> str:
    """Decode header text, which should be ASCII and often is UTF-8; fall back to Latin-1, which never fails."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
