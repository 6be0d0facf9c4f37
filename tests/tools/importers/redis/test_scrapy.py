"""Queues of scrapy-redis, written by scrapy-redis itself."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from scrapy import FormRequest, Request, Spider

from budgetfrontier.tools.cli import main
from tests.crawler.site import Site
from tests.scrapy.crawler import drain, scheduler
from tests.scrapy.process import crawl
from tests.tools.importers.redis.conftest import Job
from tests.tools.importers.redis.server import Redis, needs_server

queues = pytest.importorskip("scrapy_redis.queue")
pytestmark = needs_server


class News(Spider):  # type: ignore[misc]
    name = "news"

    def parse_item(self, response: Any, n: int) -> None: ...


def queue(client: Any, kind: str = "PriorityQueue", serializer: Any = None) -> Any:
    """A queue of scrapy-redis, as its scheduler makes it."""
    return getattr(queues, kind)(client, News(), "%(spider)s:requests", serializer)


def requests(spider: Any) -> Iterator[Request]:
    yield Request("http://a.test/1", meta={"depth": 1}, headers={"Referer": "http://a.test/"})
    yield Request("http://a.test/2", meta={"depth": 2, "tags": ("x", 1)}, priority=5)
    yield Request("http://b.test/1", priority=-10, cookies={"s": "1"}, callback=spider.parse_item, cb_kwargs={"n": 1})
    yield FormRequest("http://b.test/form", formdata={"q": "x"}, dont_filter=True, flags=["f"])


@pytest.mark.parametrize("kind", ["PriorityQueue", "FifoQueue", "LifoQueue"])
def test_a_spider_gets_its_requests_back_from_each_class_of_queue(
    client: Any, server: Redis, tmp_path: Path, kind: str
) -> None:
    given = queue(client, kind)
    for request in requests(given.spider):
        given.push(request)
    jobdir = tmp_path / "jobdir"
    with scheduler(jobdir, spider=News):
        pass  # it makes the frontier
    assert main(["import", str(jobdir), server.url]) == 0
    with scheduler(jobdir, spider=News) as resumed:
        found = {request.url: request for request in drain(resumed)}
        spider = resumed.crawler.spider
    assert sorted(found) == ["http://a.test/1", "http://a.test/2", "http://b.test/1", "http://b.test/form"]
    item = found["http://b.test/1"]
    assert (item.callback, item.cb_kwargs, item.priority) == (spider.parse_item, {"n": 1}, -10)
    assert item.headers["Cookie"] == b"s=1"
    assert found["http://a.test/2"].meta["tags"] == ("x", 1) and found["http://a.test/2"].priority == 5
    form = found["http://b.test/form"]
    assert (form.method, form.body, form.flags, form.dont_filter) == ("POST", b"q=x", ["f"], True)
    assert len(given) == 4, "nothing may be taken out of the queue"


@pytest.mark.parametrize("kind", ["FifoQueue", "LifoQueue"])
def test_lists_are_imported_in_the_order_in_which_they_were_pushed(
    client: Any, server: Redis, job: Job, kind: str
) -> None:
    given = queue(client, kind)
    for number in range(50):
        given.push(Request(f"http://a.test/{number}"))
    assert job.import_(server.url).out == "added 50, duplicate 0, full 0, invalid 0\n"
    assert job.urls() == [f"http://a.test/{number}" for number in range(50)]


def test_higher_priorities_come_first(client: Any, server: Redis, job: Job) -> None:
    given = queue(client)
    for priority in (0, 100, -5, 7):
        given.push(Request(f"http://a.test/{priority}", priority=priority))
    job.import_(server.url)
    assert job.urls() == [f"http://a.test/{priority}" for priority in (100, 7, 0, -5)]


def as_text(value: Any) -> Any:
    """The fields of a request without bytes, which JSON has not."""
    if isinstance(value, dict):
        return {as_text(name): as_text(item) for name, item in value.items()}
    return list(map(as_text, value)) if isinstance(value, list) else value.decode() if type(value) is bytes else value


SERIALIZERS = {
    "json": SimpleNamespace(dumps=lambda fields: json.dumps(as_text(fields)), loads=json.loads),
    "msgpack": SimpleNamespace(dumps=msgspec.msgpack.encode, loads=msgspec.msgpack.decode),
    "pickle 0": SimpleNamespace(dumps=lambda fields: pickle.dumps(fields, 0), loads=pickle.loads),
    "pickle 2": SimpleNamespace(dumps=lambda fields: pickle.dumps(fields, 2), loads=pickle.loads),
}


@pytest.mark.parametrize("name", SERIALIZERS)
def test_each_serializer_is_recognized(client: Any, server: Redis, job: Job, name: str) -> None:
    request = Request("http://a.test/", method="POST", body="é", priority=3, meta={"depth": 2})
    request.headers["Accept"] = "text/html"
    queue(client, serializer=SERIALIZERS[name]).push(request)
    assert job.import_(server.url).code == 0, job.err
    (uri,) = job.pending()
    assert (uri.url, uri.method, uri.body, uri.priority, uri.hops) == ("http://a.test/", "POST", "é".encode(), 3, "LL")
    assert uri.headers == {"Accept": "text/html"}


def test_fingerprints_are_counted_and_left_out(client: Any, server: Redis, job: Job) -> None:
    queue(client).push(Request("http://a.test/"))
    client.sadd("news:dupefilter", *(f"{number:040x}" for number in range(1234)))
    job.import_(server.url)
    assert "news:dupefilter: 1,234 fingerprints of Scrapy's own cannot be turned into URLs" in job.err


@pytest.mark.parametrize("type_", ["list", "set", "zset"])
def test_start_urls(client: Any, server: Redis, job: Job, type_: str) -> None:
    given = [
        "http://a.test/plain",
        json.dumps({"url": "http://a.test/form", "method": "post", "meta": {"job": 7}, "q": "x y", "n": 1}),
        json.dumps({"url": "http://a.test/query?old=1", "q": "new"}),
        json.dumps({"url": "http://a.test/json"}),
    ]
    if type_ == "list":
        client.rpush("news:start_urls", *given)
    elif type_ == "set":
        client.sadd("news:start_urls", *given)
    else:
        client.zadd("news:start_urls", {value: -number for number, value in enumerate(given)})
    assert job.import_(server.url).out == "added 4, duplicate 0, full 0, invalid 0\n"
    urls = ["plain", "form", "query?q=new", "json"]
    assert (sorted if type_ == "set" else list)(job.urls()) == (sorted if type_ == "set" else list)(
        [f"http://a.test/{url}" for url in urls]
    )
    form = next(uri for uri in job.pending() if uri.method == "POST")
    assert (form.body, form.meta) == (b"q=x+y&n=1", {"job": 7})
    assert form.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert job.import_(server.url).out == "added 0, duplicate 4, full 0, invalid 0\n"


def test_a_pickle_that_would_run_code_does_not(client: Any, server: Redis, job: Job, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    evil = {"url": "http://a.test/", "meta": {"x": Evil()}, "headers": {}}
    client.lpush("news:requests", pickle.dumps(evil), pickle.dumps(Evil()))
    job.import_(server.url)
    assert not (tmp_path / "ran").exists()
    assert (
        job.urls() == ["http://a.test/"] and "left out, because a frontier cannot store it: a part of meta" in job.err
    )


def test_malformed_members_are_reported_and_the_others_imported(client: Any, server: Redis, job: Job) -> None:
    queue(client, "FifoQueue").push(Request("http://a.test/1"))
    bad = [b"", b"\x80\x04garbage", b"{", b'{"url": 1}', b'{"meta": {}}', b'{"url": "http://x.test/", "meta": 3}']
    bad += [b"\xff\xfe", b"\x8b\x00", b"no url", b'{"url": "ftp://x.test/"}', pickle.dumps([1]), b"{i\x01\x00\x00\x00"]
    client.lpush("news:requests", *bad)
    queue(client, "FifoQueue").push(Request("http://a.test/2"))
    job.import_(server.url)
    assert job.code == 0 and job.out.startswith(f"added 2, duplicate 0, full 0, invalid {len(bad)} ("), job.out
    assert "news:requests: member 3: " in job.err


SHOP = """
class Mine(Links):
    def parse_item(self, response, n):
        self.told = [*(getattr(self, "told", None) or []), [response.url.rpartition("/")[2], n]]
"""


def test_a_crawl_fetches_each_request_of_the_queue(client: Any, server: Redis, tmp_path: Path) -> None:
    """The spider was one of scrapy-redis, and is one with this scheduler now."""
    with Site({f"{host}.test/{number}": "page" for host in "ab" for number in range(10)}) as site:
        port = site.address.rpartition(":")[2]
        given = queues.PriorityQueue(client, spider := News(name="links"), "%(spider)s:requests")
        for place in site.pages:
            url, number = f"http://{place.replace('/', f':{port}/')}", int(place[-1])
            given.push(Request(url, callback=spider.parse_item, cb_kwargs={"n": number}, priority=number))
        job = tmp_path / "job"
        crawl(site, tmp_path, SHOP, JOBDIR=str(job))  # it makes the frontier, and finds nothing to do
        assert main(["import", str(job), server.url]) == 0
        result = crawl(site, tmp_path, SHOP, JOBDIR=str(job))
    assert site.hits == dict.fromkeys(site.pages, 1), result.log
    assert sorted(result.told) == sorted([str(number), number] for number in range(10) for _ in "ab")
