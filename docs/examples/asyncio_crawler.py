"""Crawl some hosts with asyncio and aiohttp, as their robots.txt allows, and write the titles of their pages.

    python asyncio_crawler.py http://localhost:8000/ http://127.0.0.1:8000/

The frontier is in the folder `tasks`, the titles are in `titles.jsonl`. After Ctrl-C or a kill, the same command
continues the crawl. Besides budgetfrontier, aiohttp is needed, which the extra `crawl` brings.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from aiohttp import ClientError, ClientSession

from budgetfrontier import Outcome, Settings
from budgetfrontier.aio import Scheduler

AGENT = "ExampleBot/1.0 (+https://example.org/bot)"
WORKERS = 16
SETTINGS = Settings.from_dict({
    "crawl": "tasks",
    "frontier": {
        "queue_total_budget": 1000,  # pages of one host
        "politeness": {"min_delay": "100ms", "delay_factor": 1},
        "retry": {"delay": "1m", "max_retries": 5},
    },
})  # fmt: skip


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self, base: str, text: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[str] = []
        with suppress(AssertionError):  # some Pythons raise it for a declaration that they do not know
            self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the link of an `a`."""
        if tag == "a" and (href := dict(attrs).get("href")):
            with suppress(ValueError):  # not the form of a URL
                self.found.append(urljoin(self.base, href))


async def read_robots(session: ClientSession, site: str) -> RobotFileParser:
    """Return the rules of a site; one without robots.txt allows everything."""
    async with session.get(f"{site}/robots.txt") as response:
        text = await response.text(errors="replace") if response.status == 200 else ""
    rules = RobotFileParser()
    rules.parse(text.splitlines())
    return rules


async def fetch(session: ClientSession, url: str) -> tuple[int, str]:
    """Return the status of a page and its text; "" if it is no HTML."""
    async with session.get(url) as response:
        text = await response.text(errors="replace") if response.content_type == "text/html" else ""
        return response.status, text


async def work(scheduler: Scheduler, session: ClientSession, robots: dict[str, RobotFileParser]) -> None:
    """Fetch what the frontier hands out, until it is closed."""
    async for request in scheduler:
        url, start = request.uri.url, time.monotonic()
        outcome, status, text, site = Outcome.SUCCESS, 0, "", urljoin(url, "/").rstrip("/")
        reason = ""
        try:
            rules = robots[site] = robots.get(site) or await read_robots(session, site)
            if rules.can_fetch(AGENT, url):
                status, text = await fetch(session, url)
            else:
                outcome = Outcome.DISREGARDED
        except (ClientError, TimeoutError) as error:
            outcome, reason = Outcome.RETRY, f"{type(error).__name__}: {error}"
        if title := re.search(r"<title>(.*?)</title>", text):
            with open("titles.jsonl", "a", encoding="utf-8") as titles:
                titles.write(json.dumps({"url": url, "title": title[1]}) + "\n")
        inside = [link for link in Links(url, text).found if urlsplit(link).netloc == urlsplit(url).netloc]
        seconds = time.monotonic() - start
        scheduler.task_done(request, outcome, fetch_seconds=seconds, status=status, reason=reason, discovered=inside)


async def crawl(seeds: list[str]) -> None:
    """Crawl the hosts of the seeds until nothing is left that their budgets allow."""
    robots: dict[str, RobotFileParser] = {}
    session = ClientSession(headers={"User-Agent": AGENT})
    async with Scheduler("tasks/frontier", SETTINGS) as scheduler, session, asyncio.TaskGroup() as group:
        await scheduler.add_many(seeds)
        for _ in range(WORKERS):
            group.create_task(work(scheduler, session, robots))
        await scheduler.join()
        await scheduler.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python asyncio_crawler.py URL...")
    asyncio.run(crawl(sys.argv[1:]))
