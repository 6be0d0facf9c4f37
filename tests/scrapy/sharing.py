"""Processes of one spider on one served frontier, some of which are killed: `python -m tests.scrapy.sharing`.

A web of several hosts on loopback notes who asks for what, and when. In each run two of the processes are killed at
random moments, and started again or not, and the server may be killed, too. Then every page must have been fetched,
none twice but what was out at a kill, each at its cost, and no host by two at once or before its delay was over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from aiohttp import web

from budgetfrontier.core.model import Summary
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.remote import RemoteFrontier
from tests.forked import ForkedProcess
from tests.remote.test_processes import serving
from tests.scrapy.process import started
from tests.support import PATIENCE, until

HOSTS = "abcdef"
DELAY = 0.05
TTL = 6.0

CONFIG = f"""
crawl: links
frontier:
  hold_queues: false
  politeness: {{min_delay: {DELAY}, max_delay: {DELAY}, delay_factor: 0, per_queue_concurrency: 1}}
"""

SPIDER = """
class Mine(Links):
    seeds = tuple(f"{host}/0" for host in "%s")

    async def start(self):
        for place in self.seeds:
            yield Request(url(place), meta={"budgetfrontier_cost": 1})

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            number = int(link.rpartition("/")[2])
            yield response.follow(link, meta={"budgetfrontier_cost": 1 + number %% 3})
"""


class Fetch(NamedTuple):
    """A page that was asked for, by whom, and from when to when."""

    page: str
    who: str
    begin: float
    end: float


class Web(Loopback):
    """Hosts with trees of pages, each of which takes a while."""

    def __init__(self, pages: int, seconds: float = 0.01) -> None:
        super().__init__(self._answer)
        self.pages, self.seconds = pages, seconds
        self.begun = 0
        self.fetches: list[Fetch] = []

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def has_begun(self, requests: int) -> bool:
        """Tell whether so many requests have come."""
        return self.begun >= requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        host, number = request.host.partition(".")[0], int(request.path[1:])
        self.begun += 1
        begin = time.monotonic()
        await asyncio.sleep(self.seconds)
        who = request.headers.get("User-Agent", "")
        self.fetches.append(Fetch(f"{host}/{number}", who, begin, time.monotonic()))
        port = request.host.partition(":")[2]
        there = HOSTS[(HOSTS.index(host) + 1) % len(HOSTS)]
        links = [f"http://{host}.test:{port}/{child}" for child in (2 * number + 1, 2 * number + 2)]
        links.append(f"http://{there}.test:{port}/{number}" if number else links[0])
        body = "".join(f'<a href="{link}">x</a>' for link in links if int(link.rpartition("/")[2]) < self.pages)
        return web.Response(text=body, content_type="text/html")


class Run(NamedTuple):
    """What was seen of one run."""

    fetches: list[Fetch]
    killed: list[str]
    total: Summary
    results: dict[str, dict[str, Any]]
    logs: dict[str, str]
    pages: int

    @property
    def late(self) -> int:
        """Leases that have expired in a process that was not killed: the machine has stood still."""
        return sum(result["stats"].get("budgetfrontier/late", 0) for result in self.results.values())


def run(
    folder: Path, *, pages: int, seed: int, again: bool = False, server_too: bool = False, processes: int = 4
) -> Run:
    """Crawl all hosts; kill two processes at random moments, and `again`: start others in their place."""
    chance = random.Random(seed)
    total = pages * len(HOSTS)
    victims = ["process", "server", "process"] if server_too else ["process", "process"]
    moments = sorted(chance.sample(range(total // 8, total * 5 // 8), len(victims)))
    killed: list[str] = []
    running: dict[str, ForkedProcess | subprocess.Popen[str]] = {}
    with Web(pages) as site, serving(folder, config=CONFIG) as server, ExitStack() as stack:

        def start(name: str) -> None:
            own = folder / name
            own.mkdir()
            settings = {"BUDGETFRONTIER_URL": server.address, "BUDGETFRONTIER_LEASE_TTL": TTL, "USER_AGENT": name}
            process = stack.enter_context(started(site, own, SPIDER % HOSTS, **settings))
            running[name] = process

        def fetching() -> set[str]:
            return running.keys() & {fetch.who for fetch in site.fetches}

        for number in range(processes):
            start(f"p{number}")
        for moment, victim in zip(moments, victims, strict=True):
            until(partial(site.has_begun, moment))
            if victim == "server":
                server.kill()
                (folder / "s").unlink(missing_ok=True)
                server.start()
            else:
                until(fetching)  # the killed one may have fetched all pages so far
                name = chance.choice(sorted(fetching()))
                running[name].kill()
                running.pop(name).communicate()
                killed.append(name)
                if again:
                    start(f"{name}again")
        logs = {name: process.communicate(timeout=PATIENCE)[1] for name, process in running.items()}
        with RemoteFrontier(server.address, crawl="links") as frontier:
            summary = frontier.summary()
    results = {name: json.loads((folder / name / "result.json").read_text()) for name in running}
    return Run(site.fetches, killed, summary, results, logs, pages)


def check(run: Run) -> None:
    """Assert what is promised."""
    by_page: dict[str, list[Fetch]] = {}
    for fetch in run.fetches:
        by_page.setdefault(fetch.page, []).append(fetch)
    expected = {f"{host}/{number}" for host in HOSTS for number in range(run.pages)}
    assert set(by_page) == expected, "every page was fetched"
    twice = {page: found for page, found in by_page.items() if len(found) > 1}
    assert len(run.fetches) - len(by_page) <= run.total.expired, "only what was out is handed out again"
    if not run.late:
        assert all(fetch.who in run.killed for found in twice.values() for fetch in found[:-1]), twice
        assert broken_delays(run) == []
    expenditure = sum(1 + number % 3 for number in range(run.pages)) * len(HOSTS)
    total = run.total
    assert (total.expenditure, total.succeeded) == (expenditure, len(expected))
    assert (total.in_process, total.queued, total.dead, total.failed) == (0, 0, 0, 0)
    for name, result in run.results.items():
        assert result["reason"] == "finished", (name, result["reason"], run.logs[name])
        assert result["stats"].get("log_count/ERROR", 0) == 0, run.logs[name]


def broken_delays(run: Run) -> list[tuple[Fetch, Fetch]]:
    """Fetches of a host that began before the delay after the one before was over.

    What a killed process has asked for still goes on in the web, so its last fetches count until it was killed at most.
    """
    broken = []
    last: dict[str, Fetch] = {}
    for fetch in sorted(run.fetches, key=lambda fetch: fetch.begin):
        host = fetch.page[0]
        if host in last and fetch.begin < last[host].end + DELAY - 0.002:
            broken.append((last[host], fetch))
        last[host] = fetch
    return broken


def main() -> None:
    """Run campaigns, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--pages", type=int, default=300, help="of each host")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for number in range(args.runs):
        again, server_too = bool(number % 2), number % 3 == 2
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            seen = run(Path(folder), pages=args.pages, seed=args.seed + number, again=again, server_too=server_too)
            check(seen)
        shares = Counter(fetch.who for fetch in seen.fetches)
        print(
            f"run {number}: killed {seen.killed}{' and started again' if again else ''}"
            f"{', the server killed too' if server_too else ''}; fetches {len(seen.fetches)} of "
            f"{args.pages * len(HOSTS)} pages, {dict(shares)}, late {seen.late}, {time.monotonic() - began:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
