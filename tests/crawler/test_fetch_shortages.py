"""Shortages of this machine: they are told once, and cost no URI an attempt."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any

import aiohappyeyeballs
import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.fetch import shortages
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import CONNECT_FAILED, DNS_FAILED, FetchResult, PutBack
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.site import Page, Site, linking, redirect, reopened, run, text

SHORTAGES = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS]


def fetched(url: str = "http://a.test/", **settings: Any) -> FetchResult | PutBack:
    async def get() -> FetchResult | PutBack:
        async with Fetcher(FetchSettings(**settings)) as session:
            try:
                return await session.get(CrawlUri(url))
            except PutBack as back:
                return back

    return asyncio.run(get())


def failing(error: BaseException) -> Any:
    async def start_connection(*_: Any, **__: Any) -> Any:
        raise error

    return start_connection


@pytest.mark.parametrize("code", SHORTAGES)
def test_a_fetch_that_this_machine_cannot_make_puts_its_uri_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    shortages._log_once.cache_clear()
    monkeypatch.setattr(aiohappyeyeballs, "start_connection", failing(OSError(code, os.strerror(code))))
    for _ in range(2):
        back = fetched(resolve={"a.test": "127.0.0.1:9"})
        assert isinstance(back, PutBack) and back.seconds == shortages.REST
        assert back.reason == f"this machine: {os.strerror(code)}"
    [told] = [record.getMessage() for record in caplog.records if record.name == shortages.log.name]
    assert told.startswith(f"{os.strerror(code)}: URIs") and "lower fetch.concurrency" in told
    assert ("ulimit -n" in told) is (code in (errno.EMFILE, errno.ENFILE))


@pytest.mark.parametrize("code", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EIO])
def test_another_error_is_the_sites(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(aiohappyeyeballs, "start_connection", failing(OSError(code, os.strerror(code))))
    response = fetched(resolve={"a.test": "127.0.0.1:9"})
    assert isinstance(response, FetchResult) and response.status == CONNECT_FAILED


def test_a_lack_of_memory_is_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiohappyeyeballs, "start_connection", failing(MemoryError()))
    assert isinstance(fetched(resolve={"a.test": "127.0.0.1:9"}), PutBack)


@pytest.mark.parametrize("short", [True, False])
def test_a_lookup_fails_for_the_name_server_or_for_want_of_descriptors(
    monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    def lookup(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def opened(*_: Any, **__: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    if short:
        monkeypatch.setattr("budgetfrontier.crawler.fetch.shortages.os.open", opened)
    found = fetched(allow_private=True)
    if short:
        assert isinstance(found, PutBack)
    else:
        assert isinstance(found, FetchResult) and found.status == DNS_FAILED


def test_a_lookup_without_a_thread_is_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("budgetfrontier.crawler.fetch.system_resolver.threading.Thread.start", start)
    assert isinstance(fetched(allow_private=True), PutBack)


def test_a_crawl_charges_no_uri_for_a_shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each first request to a host fails, that for a robots.txt which redirects there, too."""
    connect, met = aiohappyeyeballs.start_connection, list[int]()

    async def start_connection(*arguments: Any, **options: Any) -> Any:
        met.append(len(met))
        if met[-1] % 2 == 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return await connect(*arguments, **options)

    monkeypatch.setattr(shortages, "REST", 0.0)
    monkeypatch.setattr(aiohappyeyeballs, "start_connection", start_connection)
    pages: dict[str, Page] = {
        "a.test/": linking("/1", "/2"),
        "a.test/1": text("one"),
        "a.test/2": text("two"),
        "a.test/robots.txt": redirect("http://b.test/rules"),
        "b.test/rules": text("User-agent: *\nDisallow: /2\n"),
    }
    with Site(pages) as site:
        settings = site.settings("http://a.test/", frontier={"retry": {"max_retries": 0}})
        assert run(settings, tmp_path)[0] == 0
    with reopened(tmp_path) as frontier:
        total = frontier.summary()
    assert len(met) > 2 and total.deferred >= 1
    assert (total.succeeded, total.disregarded) == (3, 1), "the robots.txt and two pages"
    assert (total.failed, total.retried, total.dead, total.expenditure) == (0, 0, 0, 2)
