"""Spiders that take their requests from a message bus: real crawls, in processes of their own."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scrapy import Request as ScrapyRequest
from scrapy import Spider
from scrapy.settings import Settings as ScrapySettings

from budgetfrontier import Frontier, Settings
from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs import codec as codecs
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.connect import connect
from budgetfrontier.bus.dead_letters import read_dead_letter
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.messages import PageCrawled, Request, Response, Stats
from budgetfrontier.bus.outbox import Item
from budgetfrontier.bus.streams import DATABASE, OPERATORS, STATISTICS, streams
from budgetfrontier.bus.workers import loop
from budgetfrontier.bus.workers.database import DatabaseWorker
from budgetfrontier.bus.workers.strategies import BreadthFirst
from budgetfrontier.bus.workers.strategy import StrategyWorker
from budgetfrontier.core.model import Summary
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.errors import SettingsError
from budgetfrontier.scrapy.bus.bus_threads import LogSender
from budgetfrontier.scrapy.bus.message_conversion import scrapy_request
from budgetfrontier.scrapy.bus.options import BusOptions, bus_options
from budgetfrontier.scrapy.bus.report_batching import Reports
from budgetfrontier.scrapy.remote.request_seals import NoKey, OtherKey, SharedKey
from budgetfrontier.scrapy.seals import RequestLost
from budgetfrontier.scrapy.serialization import Serializer
from tests.bus.conftest import zeromq_broker
from tests.bus.limited import LimitedBus
from tests.scrapy.crawler import scheduler
from tests.scrapy.process import started
from tests.support import PATIENCE, until

SETTINGS = Settings.from_dict(
    {"frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}, "retry": {"max_retries": 0}}}
)


class Site(Loopback):
    """A page with links to pages, one of which redirects, and one fails at first."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.asked: Counter[str] = Counter()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked[request.path] += 1
        if request.path == "/old":
            raise web.HTTPFound("/new")
        if request.path == "/flaky" and self.asked["/flaky"] == 1:
            return web.Response(status=503)
        if request.path == "/gone":
            return web.Response(status=500)
        return web.Response(text="page", content_type="text/html")


@contextmanager
def workers(folder: Path) -> Iterator[str]:
    """A broker, and a worker of each role in threads; the address of the bus."""
    stop, names, codec = threading.Event(), streams(), Codec()
    with zeromq_broker(folder / "journal") as address:
        url = f"zmq+{address}"

        def database() -> None:
            with (
                closing(connect(url)) as bus,
                Frontier.open(folder / "job" / "frontier", SETTINGS, keep_leases=True) as frontier,
            ):
                worker = DatabaseWorker(frontier, bus, names, codec)
                loop.run(worker, bus, names, codec, every=60.0, stopped=stop.wait)
                worker.close()

        def strategy() -> None:
            with closing(connect(url)) as bus:
                worker = StrategyWorker(BreadthFirst(), bus, names, codec)
                loop.run(worker, bus, names, codec, every=60.0, stopped=stop.wait)
                worker.close()

        threads = [threading.Thread(target=target) for target in (database, strategy)]
        for thread in threads:
            thread.start()
        try:
            yield url
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def total_of(folder: Path) -> Summary:
    with Frontier.open(folder / "job" / "frontier", keep_leases=True) as frontier:
        frontier.check()
        return frontier.summary()


def options_of(**settings: object) -> BusOptions:
    return bus_options(ScrapySettings({"BUDGETFRONTIER_BUS": "redis://host"} | settings), Spider(name="mine"))


def test_settings_of_frontera_are_named_in_warnings(caplog: pytest.LogCaptureFixture) -> None:
    options_of(SPIDER_LOG_PARTITIONS=4, STORE_CONTENT=True, BUDGETFRONTIER_STORE_CONTENT=True)
    assert [line for line in caplog.messages if "Frontera" in line] == [
        "the setting SPIDER_LOG_PARTITIONS of Frontera has no effect: use BUDGETFRONTIER_SPIDER_LOG_PARTITIONS"
    ]


def test_settings() -> None:
    options = options_of(BUDGETFRONTIER_SPIDER_FEED_PARTITIONS="4", BUDGETFRONTIER_SPIDER_PARTITION_ID=3)
    assert options.partitions == (3,) and options.streams.spider_feed.partitions == 4
    assert (options.prefetch, options.idle_before_close, options.statistics_every) == (8, 300.0, 60.0)
    assert options_of().partitions == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"BUDGETFRONTIER_URL": "host:1"}, "BUDGETFRONTIER_URL has no effect with BUDGETFRONTIER_BUS"),
        ({"BUDGETFRONTIER_SPIDER_PARTITION_ID": 1}, "partitions are numbered from 0"),
        ({"BUDGETFRONTIER_SPIDER_LOG_PARTITIONS": "many"}, "a whole number, 1 or more, not 'many'"),
        ({"BUDGETFRONTIER_BUS_CODEC": "no.such"}, "no.such"),
        ({"BUDGETFRONTIER_BUS": ""}, "BUDGETFRONTIER_BUS is empty"),
        ({"BUDGETFRONTIER_SPIDER_FEED_PARTITIONS": " "}, "BUDGETFRONTIER_SPIDER_FEED_PARTITIONS is empty"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        options_of(**settings)


class Foreign(Spider):  # type: ignore[misc]
    """A spider with a public callback."""

    name = "mine"

    def parse_item(self, response: object) -> None: ...


def test_a_page_that_is_too_large_is_reported_without_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the codec refuses it or the broker: else its lease would expire, and the page be fetched again."""
    codec, names = Codec(send_body=True), streams()
    source = Request("http://a.test/", meta={request_meta.LEASE: 1, request_meta.FRONTIER: b"f"})
    reports = Reports(codec, 1)

    def taken(size: int) -> tuple[list[Item], list[str]]:
        reports.add_result(PageCrawled(Response("http://a.test/", 200, {}, b"x" * size, source)))
        return reports.taken()

    large, [] = taken(5000)
    with monkeypatch.context() as patched:
        patched.setattr(codecs, "MAX_SIZE", 4000)
        larger, [error] = taken(5000)
    assert "the limit is 4000" in error
    bus = LimitedBus(MemoryBroker().bus(), 4000)
    sender = LogSender(lambda: bus, names, codec, wake=lambda: None)
    sender.send(large + larger)
    assert sender.close(PATIENCE) and sender.failed is None
    found = [codec.decode(each.data) for each in bus.consumer(names.spider_log, DATABASE).poll()]
    without = PageCrawled(Response("http://a.test/", request=with_meta(source, {request_meta.SIZE: 5000})))
    assert found == [without, without]
    [letter] = map(read_dead_letter, (each.data for each in bus.consumer(names.dead_letters, OPERATORS).poll()))
    assert (letter.stream, letter.size) == (names.spider_log.name, len(large[0][1]))


def with_meta(request: Request, more: dict[bytes, object]) -> Request:
    return Request(request.url, request.method, meta={**request.meta, **more})


def made(**fields: Any) -> Any:
    request = Request("http://a.test/", b"POST", **fields)
    return scrapy_request(request, Serializer(Foreign(), seal=NoKey(), durable=True))


def test_requests_that_no_spider_has_made() -> None:
    meta = {b"scrapy_callback": b"parse_item", b"scrapy_meta": {"mine": 1}, b"depth": 2, b"body": b"q"}
    found = made(headers={b"X": [b"1"]}, cookies={"c": "d"}, meta=meta)
    assert (found.url, found.method, found.body, found.cookies) == ("http://a.test/", "POST", b"q", {"c": "d"})
    assert found.callback.__name__ == "parse_item" and found.meta == {"mine": 1, "depth": 2}
    assert found.headers[b"X"] == b"1" and not found.dont_filter
    assert made().callback is None
    for name in (b"_private", b"no_such", "log"):
        with pytest.raises(RequestLost):
            made(meta={b"scrapy_callback": name})
    for headers in ({1: b"x"}, {b"X": 1.5}, {None: b"x"}):
        with pytest.raises(RequestLost):
            made(headers=headers)


@pytest.mark.parametrize("own", [NoKey(), SharedKey("secret", "mine")])
def test_junk_is_told_from_a_request_with_another_key(own: NoKey | SharedKey) -> None:
    """The first is one request that is lost; with the second, this spider could not run any."""
    serializer = Serializer(Foreign(), seal=own, durable=True)

    def load(payload: bytes) -> None:
        scrapy_request(Request("http://a.test/", meta={request_meta.SCRAPY: payload}), serializer)

    for junk in (b"", b"junk", bytes(8) + b"junk", b"m" * 40, b"x" * 24 + b"p" + b"x" * 9):
        with pytest.raises(RequestLost) as lost:
            load(junk)
        assert lost.type is RequestLost, junk
    for seal in (NoKey(), SharedKey("another", "mine")):
        other = Serializer(Foreign(), seal=seal, durable=True)
        for meta in ({"plain": 1}, {"pickled": {1}}) if seal.trusted else ({"plain": 1},):
            payload, reason = other.store(ScrapyRequest("http://a.test/", meta=meta), "http://a.test/")
            assert not reason
            if type(seal) is not type(own) or seal.trusted:
                with pytest.raises(OtherKey):
                    load(payload)


SPIDER = """
class Mine(Links):
    told = []

    async def start(self):
        yield Request(url("a/start"), callback=self.parse_start)

    def parse_start(self, response):
        for page in ("old", "flaky", "gone", "a", "b", "a", "start"):
            yield Request(url(f"a/{page}"), callback=self.parse_page, errback=self.failed, cb_kwargs={"page": page})
        yield Request(url("a/local"), callback=lambda response: self.told.append("local"))

    def parse_page(self, response, page):
        self.told.append(f"{page} {response.status} {response.meta['depth']}")
        yield Request(url("a/a"), callback=self.parse_page, meta=response.meta)

    def failed(self, failure):
        self.told.append(type(failure.value).__name__)
"""


def test_a_spider_takes_its_requests_from_the_bus_and_reports_there(tmp_path: Path) -> None:
    asked = {"/start": 1, "/old": 1, "/new": 1, "/flaky": 2, "/gone": 2, "/a": 1, "/b": 1, "/local": 1}
    with Site() as site, workers(tmp_path) as bus, closing(connect(bus)) as connection:
        with started(site, tmp_path, SPIDER, BUDGETFRONTIER_BUS=bus) as process:
            until(lambda: site.asked == asked, process)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        until(lambda: not any(connection.lag(streams().spider_log, DATABASE)))
        consumer = connection.consumer(streams().statistics, STATISTICS)
        told = [Codec().decode(received.data) for received in consumer.poll(1000, PATIENCE)]
    result = json.loads((tmp_path / "result.json").read_text())
    assert site.asked == asked
    assert sorted(result["told"]) == ["HttpError", "a 200 1", "b 200 1", "flaky 200 1", "local", "old 200 1"]
    assert result["stats"]["scheduler/enqueued/memory"] == 4, "a redirect, two retries, and the one that stays"
    total = total_of(tmp_path)
    assert (total.succeeded, total.failed, total.expenditure) == (5, 1, 6)
    assert [each.stats["_tags"] for each in told[-1:] if isinstance(each, Stats)] == [{"source": "spider"}]


def test_what_is_odd_in_a_request_or_a_stat_stops_no_spider(tmp_path: Path) -> None:
    with zeromq_broker(tmp_path / "journal") as address, closing(connect(f"zmq+{address}")) as bus:
        with scheduler(BUDGETFRONTIER_BUS=f"zmq+{address}") as s:
            assert not s.enqueue_request(ScrapyRequest("http://a.test/", meta={"budgetfrontier_cost": "7"}))
            assert s.enqueue_request(ScrapyRequest("http://a.test/", headers={"Referer": None}))
            for name, value in ("large", 1 << 70), ("endless", float("inf")), ("pages", 3):
                s.stats.set_value(name, value)
            s._next_statistics = 0.0
            s._tick()
        consumer = bus.consumer(streams().statistics, STATISTICS)
        [told, *_] = [Codec().decode(each.data) for each in consumer.poll(2, PATIENCE)]
        assert isinstance(told, Stats) and told.stats["pages"] == 3 and not {"large", "endless"} & told.stats.keys()
        assert bus.lag(streams().spider_log, DATABASE) == [1]
