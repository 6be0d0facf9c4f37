"""One fetch: a request goes out, an Answer comes back, whatever the network does. No redirect is followed here."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import ContentEncodingError

from budgetfrontier.model import CrawlUri, Outcome
from budgetfrontier.settings.matching import glob
from budgetfrontier.settings.schema import FetchSettings

# Heritrix's codes for what is no HTTP answer: https://heritrix.readthedocs.io/en/latest/glossary.html#status-codes
DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, BROKEN = -1, -2, -3, -4, -5
ROBOTS_UNREACHABLE, ROBOTS_PRECLUDED = -61, -9998

_RETRIED = frozenset({DNS_FAILED, CONNECT_FAILED, CONNECTION_LOST, TIMED_OUT, 429, 503})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_WAIT = 86400


class Answer(msgspec.Struct, kw_only=True):
    """What a fetch gave: an HTTP answer, or a negative status and a reason.

    `started` is epoch seconds; `seconds` is None when nothing was sent. `notes` are Heritrix's annotations: lenTrunc
    (cut at `max_body`), timeTrunc (cut at `timeout`).
    """

    status: int
    reason: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    started: float = 0.0
    seconds: float | None = None
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def mime(self) -> str:
        """The media type in lower case, without parameters; "" if the answer names none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The charset that the Content-Type names."""
        match = re.search(r"charset\s*=\s*[\"']?([^\s;\"']+)", self.headers.get("Content-Type", ""), re.IGNORECASE)
        return match[1] if match else None

    @property
    def location(self) -> str | None:
        """Where a redirect leads, as the server wrote it."""
        return self.headers.get("Location") if self.status in _REDIRECTS else None

    @property
    def outcome(self) -> Outcome:
        """SUCCESS for any answer, a 404 too; RETRY where the host may recover (429 and 503 say so); else FAILURE."""
        if self.status in _RETRIED:
            return Outcome.RETRY
        return Outcome.SUCCESS if self.status > 0 else Outcome.FAILURE

    @property
    def retry_after(self) -> float | None:
        """The seconds that a 429 or 503 asks for, at most a day."""
        value = self.headers.get("Retry-After", "").strip()
        asked = self.status in _RETRIED and value.isascii() and value.isdigit()
        return float(min(int(value[:9]), _LONGEST_WAIT)) if asked else None


class Fetcher:
    """HTTP for the crawl: one session, no cookies, no redirects, bounded in time and size. Use with `async with`."""

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=settings.concurrency, resolver=Resolver(settings.resolve)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": settings.user_agent, "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"},
            timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout or None),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, uri: CrawlUri, *, max_body: int | None = None) -> Answer:
        """Fetch a URI (its url a normalized href) and return what came of it; raises nothing but cancellation.

        Reads at most `max_body` bytes (None: the setting) and for at most the `timeout` setting; 0 is no limit.
        """
        answer = Answer(status=0, started=time.time())
        begin = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.timeout or None):
                await self._read(uri, answer, self._settings.max_body if max_body is None else max_body)
        except TimeoutError as error:  # aiohttp's own time-outs are among them
            if answer.status and not isinstance(error, aiohttp.ServerTimeoutError):
                answer.notes.append("timeTrunc")
            else:
                _fail(answer, error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            _fail(answer, error)
        answer.seconds = time.monotonic() - begin
        return answer

    async def _read(self, uri: CrawlUri, answer: Answer, limit: int) -> None:
        request = self._session.request(
            uri.method,
            yarl.URL(uri.url, encoded=True),
            headers=uri.headers,
            data=uri.body or None,
            allow_redirects=False,
        )
        body = bytearray()
        try:
            async with request as response:
                answer.status, answer.headers = response.status, response.headers
                async for chunk in response.content.iter_any():
                    body += chunk
                    if limit and len(body) > limit:
                        answer.notes.append("lenTrunc")
                        break  # leaving the response half read closes its connection
        finally:
            answer.body = bytes(body[:limit] if limit else body)


class Resolver(AbstractResolver):
    """DNS, except for the hosts that the setting `fetch.resolve` maps to an address; the first glob that fits counts.

    The request itself, its Host header and TLS name included, stays as the URL says.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._rules = [(glob(pattern.lower()), *_split_address(address)) for pattern, address in addresses.items()]
        self._dns = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        for matches, address, mapped in self._rules:
            if matches(host):
                kind = socket.AF_INET6 if ":" in address else socket.AF_INET
                flags = socket.AI_NUMERICHOST
                return [ResolveResult(hostname=host, host=address, port=mapped, family=kind, proto=0, flags=flags)]
        return await self._dns.resolve(host, port, family)

    async def close(self) -> None:
        await self._dns.close()


def _split_address(address: str) -> tuple[str, int]:
    """Return ("::1", 8080) of "[::1]:8080"; the settings have checked the form."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _fail(answer: Answer, error: Exception) -> None:
    """Turn an answer into a failure: its code says whose fault it seems."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        answer.status = DNS_FAILED
    elif isinstance(error, (aiohttp.ClientSSLError, ContentEncodingError)) or isinstance(
        error.__cause__, ContentEncodingError
    ):
        answer.status = BROKEN
    elif isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
        answer.status = CONNECT_FAILED
    elif isinstance(error, TimeoutError):
        answer.status = TIMED_OUT
    elif isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        answer.status = CONNECTION_LOST
    else:
        answer.status = BROKEN
    answer.reason = f"{type(error).__name__}: {error}".rstrip(": ")[:300]
