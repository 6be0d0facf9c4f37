"""Connections that a server closes instead of answering: nothing is asked twice at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from aiohttp import web

from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import CONNECTION_LOST, FetchResult
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.site import Site, linking, reopened, run
from tests.support import PATIENCE


def fetch(*paths: str) -> tuple[list[FetchResult], Counter[str]]:
    """Fetch paths one after the other; "/lost" is hung up on. What came, and how often each was asked for."""
    asked: Counter[str] = Counter()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked[request.path] += 1
        if request.path == "/lost":
            assert request.transport is not None
            request.transport.close()
        return web.Response(text="page")

    async def get(address: str) -> list[FetchResult]:
        settings = FetchSettings(resolve={"*.test": address}, timeout=PATIENCE)
        async with Fetcher(settings) as fetcher:
            return [await fetcher.get(CrawlUri(f"http://a.test{path}")) for path in paths]

    with Loopback(answer) as server:
        return asyncio.run(get(server.address)), asked


def test_a_request_on_a_connection_that_was_used_before_is_not_sent_again_at_once() -> None:
    (_, lost, after), asked = fetch("/page", "/lost", "/page")
    assert asked == {"/page": 2, "/lost": 1}
    assert (lost.status, lost.outcome, lost.retry_after) == (CONNECTION_LOST, Outcome.RETRY, 0.0)
    assert "the server closed the connection" in lost.reason and after.status == 200


def test_a_request_on_a_new_connection_is_not_sent_again_at_once_either() -> None:
    (lost,), asked = fetch("/lost")
    assert asked == {"/lost": 1}
    assert (lost.status, lost.outcome, lost.retry_after) == (CONNECTION_LOST, Outcome.RETRY, None)


def test_a_page_that_met_a_stale_connection_is_tried_again_after_the_delay_of_its_host(tmp_path: Path) -> None:
    class Closing(Site):
        """Closes the connection the first time that the second page is asked for."""

        async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/2" and not self.hits["a.test/2"]:
                assert request.transport is not None
                request.transport.close()
            return await super()._answer(request)

    with Closing({"a.test/": linking("/2"), "a.test/2": "two"}) as site:
        retry = {"max_retries": 2, "delay": "1d"}
        settings = site.settings("http://a.test/", frontier={"retry": retry}, fetch={"robots": "ignore"})
        assert run(settings, tmp_path)[0] == 0
    assert site.hits == {"a.test/": 1, "a.test/2": 2}
    with reopened(tmp_path) as frontier:
        assert frontier.summary().succeeded == 2
