"""A scheduler outside a crawl: no engine, no reactor, so that a request ends when the next one is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scrapy import Request, Spider, signals, version_info
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from budgetfrontier.scrapy import Scheduler

if version_info < (2, 15):  # these make no crawler without a reactor
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    asyncio.set_event_loop(None)  # that of the reactor is not for all tests of this process


class Pages(Spider):  # type: ignore[misc]
    name = "pages"

    def parse(self, response: Any) -> None: ...

    def parse_more(self, response: Any) -> None: ...


@contextmanager
def scheduler(jobdir: Path | None = None, *, spider: type[Spider] = Pages, **settings: Any) -> Iterator[Any]:
    """An open scheduler of a spider, closed at the end."""
    made = make(jobdir, spider=spider, **settings)
    made.open(made.crawler.spider)
    try:
        yield made
    finally:
        made.close("finished")


def make(jobdir: Path | None = None, *, spider: type[Spider] = Pages, **settings: Any) -> Any:
    """A scheduler that is not open yet."""
    if jobdir is not None:
        settings["JOBDIR"] = str(jobdir)
    handlers = logging.root.handlers[:]
    crawler = get_crawler(spider, settings)
    if version_info < (2, 15):  # these leave a handler until a crawl ends
        logging.root.handlers[:] = handlers
    crawler.spider = crawler._create_spider()
    return Scheduler.from_crawler(crawler)


def page(path: str = "", **options: Any) -> Request:
    """A request for a page of example.org."""
    return Request(f"https://example.org/{path}", **options)


def start(path: str = "", **options: Any) -> Request:
    """A request as Scrapy's own `start` makes it."""
    return page(path, **{"dont_filter": True, **options, "meta": {"is_start_request": True, **options.get("meta", {})}})


def reach(scheduler: Any, request: Request) -> None:
    """Tell the scheduler that a request has reached the downloader, as Scrapy's engine does."""
    signal, spider = signals.request_reached_downloader, scheduler.crawler.spider
    scheduler.crawler.signals.send_catch_log(signal, request=request, spider=spider)


def drain(scheduler: Any) -> list[Request]:
    """All requests that go out, in order."""
    return list(iter(scheduler.next_request, None))


def paths(scheduler: Any) -> str:
    """The last letters of the URLs that go out, in order."""
    return "".join(request.url[-1] for request in drain(scheduler))


def stats(scheduler: Any) -> dict[str, Any]:
    """The stats of a scheduler's crawler."""
    collected: dict[str, Any] = scheduler.crawler.stats.get_stats()
    return collected
