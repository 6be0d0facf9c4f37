"""One fetch: a request goes out, an Answer comes back, whatever the network does. No redirect is followed here."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

import aiohttp
import yarl
from aiohttp.http_exceptions import ContentEncodingError

from budgetfrontier.crawl.fetch.addresses import Resolver
from budgetfrontier.crawl.fetch.answer import BROKEN, CONNECT_FAILED, CONNECTION_LOST, DNS_FAILED, TIMED_OUT, Answer
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings.schema import FetchSettings


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
