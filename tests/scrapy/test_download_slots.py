"""Download slots: what a spider has set holds, what the downloader wrote is not taken along to another host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier import Frontier
from budgetfrontier.scrapy.in_flight import continues
from tests.crawler.site import Site, text
from tests.scrapy.crawler import page, scheduler
from tests.scrapy.process import crawl


@pytest.mark.parametrize(
    ("meta", "headers", "queue", "kept"),
    [
        ({}, {}, "example.org", None),
        ({"download_slot": "proxy 1"}, {}, "proxy 1", "proxy 1"),
        ({"download_slot": "example.org"}, {}, "example.org", "example.org"),
        ({"download_slot": "old.example", "redirect_urls": ["https://old.example/"]}, {}, "example.org", None),
        ({"download_slot": "other", "redirect_urls": ["https://old.example/"]}, {}, "other", "other"),
        ({"download_slot": "other", "redirect_urls": ["https://[broken"]}, {}, "other", "other"),
        ({"download_slot": "old.example"}, {"Referer": "https://old.example/page"}, "old.example", "old.example"),
    ],
)
def test_a_slot_of_the_spider_is_the_queue(
    meta: dict[str, Any], headers: dict[str, str], queue: str, kept: str | None
) -> None:
    with scheduler() as s:
        assert s.enqueue_request(page("a", meta=meta, headers=headers))
        assert s.frontier.queue(queue).queued == 1
        assert s.next_request().meta.get("download_slot") == kept


SLOTS = """
warnings.filterwarnings("ignore", "The CONCURRENT_REQUESTS_PER_IP setting is deprecated")

class Mine(Links):
    custom_settings = {"RETRY_TIMES": 1, "DOWNLOADER_MIDDLEWARES": {"__main__.Proxies": 1}}

    async def start(self):
        self.told = {}
        yield Request(url("a/set"), meta={"download_slot": "a.test"}, callback=self.set)
        yield Request(url("a/plain"), callback=self.plain)
        yield Request(url("a/away"), callback=self.tell)
        yield Request(url("a/set-away"), meta={"download_slot": "a.test"}, callback=self.tell)
        yield Request(url("a/ill"), errback=self.tell)
        yield Request(url("a/proxied"), errback=self.tell)

    def tell(self, response):
        request = response.request
        self.told[request.url.partition("//")[2].partition(":")[0] + "/" + request.url.rpartition("/")[2]] = (
            request.meta["download_slot"]
        )

    def set(self, response):
        self.tell(response)
        yield Request(url("b/explicit"), meta={"download_slot": "a.test"}, callback=self.tell)
        yield Request(url("b/copied"), meta=response.meta, callback=self.tell)

    def plain(self, response):
        self.tell(response)
        yield response.follow(url("b/inherited"), meta=response.meta, callback=self.tell)
        yield response.follow(url("b/own"), meta={"download_slot": "a.test"}, callback=self.tell)
        yield response.follow(url("b/same"), meta={**response.meta, "download_slot": "a." + "test"}, callback=self.tell)
        yield response.follow(
            url("b/of-page"), meta={"download_slot": response.meta["download_slot"]}, callback=self.tell
        )

class Proxies:
    def process_request(self, request, spider=None):
        if request.url.endswith("proxied"):
            request.meta["download_slot"] = f"proxy {request.meta.get('retry_times', 0)}"
"""


@pytest.mark.parametrize("by", ["DOMAIN", "IP"])
def test_only_what_the_downloader_wrote_is_not_taken_along(tmp_path: Path, by: str) -> None:
    def away() -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"http://c.test:{site.address.rpartition(':')[2]}/there"})

    def set_away() -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"http://d.test:{site.address.rpartition(':')[2]}/there"})

    names = ("explicit", "copied", "inherited", "own", "same", "of-page")
    pages: dict[str, Any] = {f"b.test/{name}": "" for name in names} | {"c.test/there": "", "d.test/there": ""}
    pages |= {"a.test/set": "", "a.test/plain": "", "a.test/away": away, "a.test/set-away": set_away}
    pages |= {"a.test/ill": text("", status=503), "a.test/proxied": text("", status=503)}
    with Site(pages) as site:
        result = crawl(site, tmp_path, SLOTS, JOBDIR=str(tmp_path / "job"), **{f"CONCURRENT_REQUESTS_PER_{by}": 8})
        port = site.address.rpartition(":")[2]
    assert result.reason == "finished", result.log
    written = {host: "127.0.0.1" if by == "IP" else host for host in ("a.test", "b.test", "c.test")}
    assert result.told == {
        "a.test/set": "a.test",
        "a.test/plain": written["a.test"],
        "b.test/explicit": "a.test",
        "b.test/copied": "a.test",
        "b.test/inherited": written["b.test"],
        "b.test/own": "a.test",
        "b.test/same": "a.test",
        "b.test/of-page": written["a.test"],
        "c.test/there": written["c.test"],
        "d.test/there": "a.test",
        "a.test/ill": written["a.test"],
        "a.test/proxied": "proxy 1",
    }
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        enqueued = {queue.queue: queue.enqueued for queue in frontier.report().queues}
    expected = {f"a.test:{port}": 8, f"b.test:{port}": 1, f"c.test:{port}": 1, "a.test": 5}
    expected[written["a.test"]] = expected.get(written["a.test"], 0) + 1  # b.test/of-page
    assert enqueued == expected


@pytest.mark.parametrize("nonsense", [None, 5, {}, [5], "x"])
def test_metadata_that_a_spider_has_set_to_anything_loses_no_request(nonsense: object) -> None:
    with scheduler() as s:
        assert s.enqueue_request(page("a", meta={"redirect_urls": nonsense, "download_slot": "slot"}))
        assert continues(page("b", meta={"retry_times": nonsense}), page("c")) is (nonsense == 5)
