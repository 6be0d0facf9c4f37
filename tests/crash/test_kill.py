"""SIGKILL at random moments of a real crawl: nothing is lost, and no committed attempt is paid or fetched again.

Each host is a tree of pages, a page linking to its two children. So what a frontier has admitted follows from what it
has finished, and what it has finished from what is pending: page by page it can be told what a commit held.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlState, Frontier, Reader
from tests.crawler.site import Site, linking
from tests.sizes import sized
from tests.support import PATIENCE, child_process, until

pytestmark = pytest.mark.full_size

KILLS = sized(8, 25)
HOSTS = [f"h{number:02d}.test" for number in range(40)]
PAGES = sized(25, 75)
"""On each host: more than are answered in all lives that are killed."""

MOST_ASKED = 80
MARGIN = 30
"""Requests that are answered between the decision to kill and the kill, at the most."""

CONCURRENCY = 16
SLOWNESS = 0.005


class Trees(Site):
    """The hosts, each a tree of PAGES pages."""

    def __init__(self) -> None:
        super().__init__({})

    def wait_for(self, requests: int) -> None:
        """Wait until that many more requests have come; few more are answered."""
        wanted = self.hits.total() + requests
        self.bound = wanted + MARGIN
        until(lambda: self.hits.total() >= wanted)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.hits[request.host.partition(":")[0] + request.path] += 1
        await self.turn()
        await asyncio.sleep(SLOWNESS)
        if not request.path[1:].isdigit():
            return web.Response(status=404)
        number = int(request.path[1:])
        links = linking(
            *(f"/{child}" for child in (2 * number + 1, 2 * number + 2) if child < PAGES), f"/{number // 2}"
        )
        return web.Response(text=links, content_type="text/html")


class Crawler:
    """The process that crawls: `start` it, `kill` it, or `wait` for its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin and process.stdout
        self._stdin, self._stdout = process.stdin, process.stdout

    def start(self) -> int:
        self._stdin.write("go\n")
        self._stdin.flush()
        return int(self._stdout.readline())

    def wait(self) -> int:
        return int(self._stdout.readline())


@contextmanager
def crawler(config: Path, job: Path) -> Iterator[Crawler]:
    command = [sys.executable, str(Path(__file__).with_name("crawler.py")), str(config), str(job)]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Crawler(process)
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait(PATIENCE)


def committed(job: Path) -> set[str]:
    """Open the frontier after a kill, check it, and return the pages that its last commit held as finished."""
    with Frontier.open(job / "frontier") as frontier:
        frontier.check()
        summary = frontier.summary()
        assert summary.in_process == 0
    with Reader(job / "frontier") as reader:
        pending = {p.uri.url.removeprefix("http://") for host in HOSTS for p in reader.pending(host)}
    done: set[str] = set()
    for host in HOSTS if summary.seen else ():
        for number in range(PAGES):
            page, parent = f"{host}/{number}", f"{host}/{(number - 1) // 2}"
            if page not in pending and (number == 0 or parent in done):
                done.add(page)
    robots = sum(page.endswith("/robots.txt") for page in pending)
    # Pages cost 1, robots.txt nothing, and all end well: what was spent is what is done, to the unit.
    assert summary.expenditure == len(done)
    assert summary.seen == len(done) + len(pending) - robots
    return done


def test_killed_crawls_lose_nothing_and_pay_once(tmp_path: Path) -> None:
    config, job = tmp_path / "crawl.yaml", tmp_path / "job"
    chance = random.Random(20260101)
    with Trees() as site:
        config.write_text(
            json.dumps(
                {
                    "seeds": [f"http://{host}/0" for host in HOSTS],
                    "fetch": {"resolve": {"*.test": site.address}, "concurrency": CONCURRENCY},
                    "frontier": {
                        "balance_replenish_amount": 20,
                        "commit_interval": 0.03,
                        "max_deliveries": 1000,
                        "politeness": {"min_delay": 0, "delay_factor": 0, "max_delay": 0},
                        "retry": {"delay": 0},
                    },
                }
            )
        )
        finished_at: dict[str, int] = {}
        with crawler(config, job) as child:
            for _ in range(KILLS):
                site.bound = site.hits.total() + MARGIN
                pid = child.start()
                site.wait_for(chance.randrange(MOST_ASKED))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                assert child.wait() == -signal.SIGKILL, "the crawl was over before it could be killed"
                if not (job / "frontier" / "data.mdb").exists():
                    continue
                done = committed(job)
                assert done >= finished_at.keys(), "what was committed came undone"
                for page in done - finished_at.keys():
                    finished_at[page] = site.hits[page]
            assert 0 < len(finished_at) < len(HOSTS) * PAGES
            site.bound = math.inf
            child.start()
            assert child.wait() == 0
        assert len(committed(job)) == len(HOSTS) * PAGES
        assert all(site.hits[f"{host}/{number}"] for host in HOSTS for number in range(PAGES))
        assert {page: site.hits[page] for page in finished_at} == finished_at, "what was committed was fetched again"
        with Frontier.open(job / "frontier") as frontier:
            assert frontier.state is CrawlState.FINISHED
            assert frontier.dead_letters() == []
