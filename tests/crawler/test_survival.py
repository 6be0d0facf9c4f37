"""A crawl that is killed again and again: nothing that was done is done again, and what is called done is on disk."""

from __future__ import annotations

import gzip
import json
import math
import signal
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

from budgetfrontier import CrawlState, Frontier, Reader
from tests.crawler.process import end, started
from tests.crawler.site import Site, linking
from tests.sizes import sized
from tests.support import until

pytestmark = pytest.mark.full_size

PAGES = 240
KILLS = sized(2, 4)


class Tree(Site):
    """A tree of `PAGES` pages on three hosts: page n links to 2n + 1 and 2n + 2."""

    def __init__(self) -> None:
        super().__init__({})

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        number = int(request.path[1:])
        self.hits[url(number)] += 1
        await self.turn()
        children = [url(child) for child in (2 * number + 1, 2 * number + 2) if child < PAGES]
        return web.Response(text=linking(*children) + f"page {number}", content_type="text/html")


def url(number: int) -> str:
    return f"http://{'abc'[number % 3]}.test/{number}"


def done(job: Path) -> set[str]:
    """The pages that the frontier calls done, after everything that a kill left is put right."""
    with Frontier.open(job / "frontier") as frontier:
        frontier.check()
    with Reader(job / "frontier") as reader:
        known = {page: reader.find(page) for page in map(url, range(PAGES))}
    return {page for page, found in known.items() if found["seen"] and found["pending"] is None}


def archived(job: Path) -> Counter[str]:
    """How often each page stands in the WARC files, whole."""
    found: Counter[str] = Counter()
    for path in sorted((job / "warcs").iterdir()):
        with path.open("rb") as file:
            try:
                for record in ArchiveIterator(file):
                    target = record.rec_headers.get_header("WARC-Target-URI")
                    body = record.content_stream().read()
                    if record.rec_type == "response":
                        assert body.endswith(f"page {target.rpartition('/')[2]}".encode())
                        found[target] += 1
            except (ArchiveLoadFailed, EOFError, zlib.error, gzip.BadGzipFile):
                assert path.suffix == ".open"  # what the kill cut off
    return found


def test_a_crawl_that_is_killed_again_and_again_loses_nothing_and_repeats_little(tmp_path: Path) -> None:
    job, finished = tmp_path / "job", set[str]()
    pace = {"commit_interval": "50ms", "politeness": {"min_delay": "10ms", "delay_factor": 0, "max_delay": "1s"}}
    sections: dict[str, Any] = {"scope": {"accept": ["all"]}, "output": {"warc": True}, "frontier": pace}
    with Tree() as site:
        for kill in range(1, KILLS + 1):
            before, wanted = site.hits.copy(), kill * PAGES // (KILLS + 2)
            site.bound = before.total() + wanted - len(before) + 30  # what was not committed is asked for again
            with started(site, tmp_path, url(0), **sections) as process:
                until(lambda wanted=wanted: len(site.hits) >= wanted, process)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait()
            again = {page for page in before if site.hits[page] > before[page]}
            assert not again & finished, "what was committed is not fetched again"
            finished = done(job)
            assert finished <= set(archived(job)), "what the frontier calls done is on disk"
        assert len(finished) > 10
        site.bound = math.inf
        with started(site, tmp_path, url(0), **sections) as process:
            code, said = end(process)
    assert code == 0 and "crawl finished" in said
    assert set(site.hits) == {url(number) for number in range(PAGES)}
    assert max(site.hits.values()) <= 1 + KILLS
    assert set(archived(job)) == set(site.hits)
    assert not list((job / "warcs").glob("*.open"))
    lines = (job / "logs/crawl.log").read_text().splitlines()
    assert {line.split()[3] for line in lines} == set(site.hits)
    pages = (job / "logs/pages.jsonl").read_text().splitlines()
    assert {json.loads(line)["url"] for line in pages} == set(site.hits)
    with Frontier.open(job / "frontier") as frontier:
        assert frontier.state is CrawlState.FINISHED
        assert frontier.summary().succeeded == PAGES
