"""The robots.txt of a page, fetched with the lease of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from budgetfrontier import CrawlUri, Frontier, Lease, ManualClock, Outcome
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.fetch.response import FetchResult, PutBack
from budgetfrontier.crawler.robots import Permission, Robots
from budgetfrontier.crawler.robots_redirects import RobotsRedirects
from budgetfrontier.crawler.shared.page_robots import LONGEST_REST, PageRobots
from budgetfrontier.crawler.shared.server_calls import Questions
from tests.support import memory, one

RULES = FetchResult(status=200, body=b"User-agent: *\nDisallow: /no\nCrawl-delay: 7", seconds=1.0)


class Asked:
    """The answers of a frontier in this process to the questions of visits."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self.settings_for = frontier.internals.settings_for

    def __getattr__(self, name: str) -> Any:
        async def ask(*args: Any, **named: Any) -> Any:
            owner = self._frontier.internals if name in ("queue_key", "rest") else self._frontier
            return getattr(owner, name)(*args, **named)

        return ask


class Process:
    """A process that fetches robots.txt files: `web` has the responses by URL, `rested` how long hosts rested."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = ManualClock(1_000_000.0)
        self.frontier = memory(self.clock, hold_queues=False, retry={"max_retries": 1, "delay": 100}, **settings)
        self.cache = CrawlCache(folder / "cache")
        self.robots = Robots("tester", cache=self.cache, now=self.clock.time)
        self.web: dict[str, FetchResult] = {}
        self.asked: list[str] = []
        self.rested: list[float] = []
        self.written: list[tuple[str, Outcome]] = []
        self.stopping = False
        self._page_robots = PageRobots(
            cast(Questions, Asked(self.frontier)),
            self.robots,
            RobotsRedirects(self.robots, self.cache, now=self.clock.time),
            fetch=self._fetch,
            sitemaps=lambda uri, response: [CrawlUri("http://map.test/")] if response.body else [],
            write=lambda lease, uri, response, outcome: self.written.append((uri.url, outcome)),
            rest=self._rest,
            now=self.clock.time,
        )

    async def _fetch(self, lease: Lease, uri: CrawlUri) -> FetchResult:
        self.asked.append(uri.url)
        return self.web[uri.url]

    async def _rest(self, seconds: float) -> bool:
        self.rested.append(seconds)
        self.clock.advance(seconds)
        return not self.stopping

    def prepare(self, url: str) -> Permission | PutBack:
        """What a visit of a URL begins with: the permission to fetch it, or why it goes back."""

        async def prepared(lease: Lease) -> Permission | PutBack:
            try:
                await self._page_robots.prepare(lease)
            except PutBack as back:
                return back
            return await self.robots.permission(url, patience=0.0)

        self.frontier.schedule(CrawlUri(url, force=True))
        leases = self.frontier.lease(10)
        (lease,) = (lease for lease in leases if lease.uri.url == url)
        self.frontier.give_back(other for other in leases if other is not lease)
        found = asyncio.run(prepared(lease))
        self.frontier.finish(lease)
        return found


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    process.cache.close()


def test_the_host_rests_after_it_as_long_as_it_says(process: Process) -> None:
    process.web = {"http://a.test/robots.txt": RULES}
    assert process.prepare("http://a.test/yes") is Permission.ALLOWED
    assert process.prepare("http://a.test/no") is Permission.DISALLOWED
    assert process.asked == ["http://a.test/robots.txt"] and process.rested == [7.0]
    assert process.written == [("http://a.test/robots.txt", Outcome.SUCCESS)]
    assert one(process.frontier).uri.url == "http://map.test/"


def test_one_that_fails_is_tried_again_and_given_up(process: Process) -> None:
    process.web = {"http://a.test/robots.txt": FetchResult(status=503, seconds=1.0)}
    back = process.prepare("http://a.test/1")
    assert isinstance(back, PutBack) and back.seconds == 100.0
    soon = process.prepare("http://a.test/2")
    assert isinstance(soon, PutBack) and 100.0 < soon.seconds < 102.0 and len(process.asked) == 1
    process.clock.advance(200.0)
    assert process.prepare("http://a.test/1") is Permission.UNREACHABLE and len(process.asked) == 2


def test_the_rest_of_another_host_that_fails_is_not_that_of_the_page(tmp_path: Path) -> None:
    process = Process(tmp_path, politeness={"min_delay": 200, "max_delay": 200})
    process.web["http://a.test/robots.txt"] = FetchResult(
        status=302, headers={"Location": "http://c.test/"}, seconds=1.0
    )
    process.web["http://c.test/"] = FetchResult(status=503, seconds=1.0)
    back = process.prepare("http://a.test/1")
    assert isinstance(back, PutBack) and back.seconds == 100.0 and process.rested == [200.0]
    process.cache.close()


def test_the_crawl_stops_while_the_host_rests(process: Process) -> None:
    process.web = {"http://a.test/robots.txt": RULES}
    process.stopping = True
    back = process.prepare("http://a.test/1")
    assert isinstance(back, PutBack) and back.seconds == 7.0


def test_where_turns_are_apart_the_page_has_the_next_one(tmp_path: Path) -> None:
    process = Process(tmp_path, politeness={"min_interval": 1, "delay_factor": 0, "min_delay": 0})
    process.web = {
        "http://a.test/robots.txt": FetchResult(status=302, headers={"Location": "/rules"}, seconds=1.0),
        "http://a.test/rules": RULES,
    }
    for asked in 1, 2:
        back = process.prepare("http://a.test/1")
        assert isinstance(back, PutBack) and len(process.asked) == asked
        process.clock.advance(10.0)
    assert process.prepare("http://a.test/1") is Permission.ALLOWED and process.rested == []
    process.cache.close()


def test_another_host_is_asked_when_its_queue_allows_it(process: Process) -> None:
    for host in "ab":
        process.web[f"http://{host}.test/robots.txt"] = FetchResult(
            status=302, headers={"Location": f"http://c.test/{host}"}, seconds=1.0
        )
        process.web[f"http://c.test/{host}"] = RULES
    process.frontier.schedule("http://c.test/")
    process.frontier.finish(one(process.frontier), delay=5.0)
    assert process.prepare("http://a.test/yes") is Permission.ALLOWED
    assert process.rested[0] == pytest.approx(5.0, abs=0.1)
    process.frontier.schedule("http://c.test/1")
    process.frontier.snooze("c.test", until=process.clock.time() + 1000.0)
    back = process.prepare("http://b.test/yes")
    assert isinstance(back, PutBack) and back.seconds > LONGEST_REST and "c.test" in back.reason
