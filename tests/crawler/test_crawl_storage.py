"""What a crawl does when its disk fails it in the middle of a visit, and that nothing is lost between two commits."""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from budgetfrontier import Frontier
from budgetfrontier.core.model import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.job import crawl
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.crawler.visit import Visit, Visitor
from budgetfrontier.errors import OutputRemoved, StorageFull
from budgetfrontier.reports import listings
from budgetfrontier.testing import fail_commit
from tests.crawler.site import Page, Site, linking, reopened, run, text

HOME = "http://a.test/"
SMALL: dict[str, Page] = {"a.test/": linking("/1"), "a.test/1": "one", "a.test/robots.txt": text("")}


@pytest.mark.parametrize("error", [StorageFull(), OSError(5, "Input/output error")])
def test_links_that_cannot_be_written_end_the_crawl_and_the_page_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    with Site(SMALL) as site:
        settings = site.settings(HOME, output={"links": "jsonl"})
        with monkeypatch.context() as patch:
            patch.setattr(Outputs, "write_links", fail)
            with pytest.raises(type(error)):
                run(settings, tmp_path)
        with reopened(tmp_path) as frontier:
            assert (frontier.summary().queued, frontier.summary().failed) == (1, 0)
        assert run(settings, tmp_path)[0] == 0
    assert site.hits["a.test/"] == 2 and site.hits["a.test/1"] == 1
    with reopened(tmp_path) as frontier:
        assert (frontier.summary().queued, frontier.summary().failed) == (0, 0)


@pytest.fixture
def leasing(monkeypatch: pytest.MonkeyPatch) -> list[Frontier]:
    """The frontiers that are leased from, the one in use last."""
    frontiers: list[Frontier] = []
    lease = Frontier.lease

    def noted(frontier: Frontier, *given: Any, **options: Any) -> list[Lease]:
        frontiers.append(frontier)
        return lease(frontier, *given, **options)

    monkeypatch.setattr(Frontier, "lease", noted)
    return frontiers


@pytest.mark.parametrize("pattern", ["warcs/*.open", "logs/crawl.log", "logs/pages.jsonl"])
def test_outputs_that_are_removed_end_the_crawl_before_it_commits(tmp_path: Path, pattern: str) -> None:
    def remove() -> web.StreamResponse:
        for path in tmp_path.glob(pattern):
            path.unlink()
        return web.Response(text="one", content_type="text/html")

    with Site(SMALL | {"a.test/1": remove}) as site:
        settings = site.settings(HOME, output={"warc": True}, frontier={"commit_interval": 3600})
        with pytest.raises(OutputRemoved, match="run the same command again"):
            run(settings, tmp_path)
        site.pages["a.test/1"] = "one"
        assert run(settings, tmp_path)[0] == 0
    assert site.hits["a.test/1"] == 2
    with reopened(tmp_path) as frontier:
        assert frontier.summary().queued == 0
    assert f"{HOME}1" in [line.split()[3] for line in (tmp_path / "logs/crawl.log").read_text().splitlines()]
    records = b"".join(gzip.decompress(path.read_bytes()) for path in tmp_path.glob("warcs/*.gz"))
    assert f"WARC-Target-URI: {HOME}1\r\n".encode() in records


def test_a_robots_txt_counts_as_known_only_once_it_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leasing: list[Frontier]
) -> None:
    visit = Visitor.visit

    async def crash(visitor: Visitor, lease: Lease, asked: CrawlUri) -> Visit:
        await visit(visitor, lease, asked)
        leasing[-1].commit()
        raise OSError("a crash")

    with Site(SMALL) as site:
        settings = site.settings(HOME)
        with monkeypatch.context() as patch:
            patch.setattr(Visitor, "visit", crash)
            with pytest.raises(OSError, match="a crash"):
                run(settings, tmp_path)
        assert run(settings, tmp_path)[0] == 0
    assert site.hits["a.test/robots.txt"] == 2
    assert [line.split()[3] for line in (tmp_path / "logs/crawl.log").read_text().splitlines()] == [
        "http://a.test/robots.txt",
        "http://a.test/",
        "http://a.test/1",
    ]


def test_the_sitemaps_of_a_robots_txt_survive_a_crash_between_the_commits_of_memory_and_frontier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: dict[str, Page] = {
        "a.test/robots.txt": text("Sitemap: http://a.test/map.xml"),
        "a.test/": "page",
        "a.test/map.xml": text("<urlset><url><loc>http://a.test/deep</loc></url></urlset>"),
    }
    commit = CrawlCache.commit

    def crash(cache: CrawlCache) -> None:
        commit(cache)
        if cache.robots("http://a.test"):
            raise StorageFull("full")

    with Site(pages) as site:
        settings = site.settings("http://a.test/")
        for _ in range(2):  # and what is told of again at the second start may be lost as well
            with monkeypatch.context() as patch, pytest.raises(StorageFull):
                patch.setattr(CrawlCache, "commit", crash)
                run(settings, tmp_path)
        assert run(settings, tmp_path)[0] == 0
    assert site.hits["a.test/robots.txt"] == 1
    with reopened(tmp_path) as frontier:  # what was asked in the runs that crashed does not count
        assert frontier.summary().succeeded == 3


def test_a_frontier_that_a_visit_found_without_room_is_told_of_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leasing: list[Frontier]
) -> None:
    async def visit(visitor: Visitor, lease: Lease, asked: CrawlUri) -> Visit:
        if lease.uri.url.endswith("/2"):
            fail_commit(leasing[-1])
            leasing[-1].commit()
        return Visit(lease.uri, FetchResult(status=200), Outcome.SUCCESS)

    monkeypatch.setattr(Visitor, "visit", visit)
    with Site(SMALL) as site:
        settings = site.settings(HOME, "http://b.test/2", fetch={"robots": "ignore"})
        with pytest.raises(StorageFull):  # not what the other visit, which ends before it, meets: a closed frontier
            run(settings, tmp_path)


@pytest.mark.parametrize("folder", [False, True], ids=["full", "no folder"])
def test_reports_that_cannot_be_written_hide_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    def full(*_: object) -> Iterator[str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    said = io.StringIO()
    if folder:
        (tmp_path / "reports").touch()
    else:
        monkeypatch.setattr(listings, "json_report", full)
    with Site(SMALL) as site, pytest.raises(OSError) as caught:
        crawl(site.settings(HOME), tmp_path, progress=ProgressDisplay(console=Console(file=said, width=400)))
    assert Path(caught.value.filename) == tmp_path / ("reports" if folder else "reports/frontier.json")
    assert "crawl finished" in said.getvalue() and "  done: 2 crawled" in said.getvalue()
