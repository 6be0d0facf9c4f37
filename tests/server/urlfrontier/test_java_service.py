"""The service as the published Java API sees it: every RPC that its jars have, one after the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.server.crawls import Crawls
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages
from budgetfrontier.server.urlfrontier.service import UrlFrontierService
from budgetfrontier.settings import Settings
from tests.server.urlfrontier.conftest import Connect
from tests.server.urlfrontier.serving import served

HERE = "127.0.0.1:7071"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[UrlFrontierService]:
    crawls = Crawls(tmp_path, Settings.from_dict({"profile": "served"}))
    yield UrlFrontierService(crawls, HERE)
    crawls.close()


def found(url: str, key: str = "") -> Any:
    """Return the item of a URL that was discovered."""
    info = messages.URLInfo(url=url, key=key, crawlID="c")
    info.metadata["depth"].values.append("2")
    return messages.URLItem(discovered=messages.DiscoveredURLItem(info=info), ID=f"put {url}")


def fetched(info: Any, again: int = 0) -> Any:
    """Return the item of a URL that was fetched."""
    return messages.URLItem(known=messages.KnownURLItem(info=info, refetchable_from_date=again))


def test_each_rpc_of_the_java_api(java: Connect, service: UrlFrontierService, caplog: pytest.LogCaptureFixture) -> None:
    with served(service.hand_over) as address, java(address) as client:
        definition = client.definition()
        has = {method.name for service in definition.service for method in service.method}

        def call(name: str, *requests: Any) -> list[Any]:
            replies, status, details = client.call(name, *requests)
            assert status == "OK", f"{name}: {status} {details}"
            return list(replies)

        urls = [f"http://{host}.test/{number}" for number in range(3) for host in ("a", "b")]
        acks = call("PutURLs", *(found(url) for url in urls), found(urls[0]), found("http://k.test/", "a.test"))
        assert [(ack.ID, ack.status) for ack in acks] == [
            *((f"put {url}", messages.AckMessage.OK) for url in urls),
            (f"put {urls[0]}", messages.AckMessage.SKIPPED),
            ("put http://k.test/", messages.AckMessage.OK),
        ]
        assert list(call("ListCrawls", messages.Local())[0].values) == ["c"]
        assert list(call("ListNodes", messages.Empty())[0].values) == [HERE]
        assert list(call("ListQueues", messages.Pagination(crawlID="c"))[0].values) == ["a.test", "b.test"]

        call("SetActive", messages.Active(state=False))
        assert not call("GetActive", messages.Local())[0].state
        assert call("GetURLs", messages.GetParams(crawlID="c")) == []
        call("SetActive", messages.Active(state=True))

        got = call("GetURLs", messages.GetParams(crawlID="c", max_queues=1, max_urls_per_queue=2))
        assert [(info.url, info.key, list(info.metadata["depth"].values)) for info in got] == [
            ("http://a.test/0", "a.test", ["2"]),
            ("http://a.test/1", "a.test", ["2"]),
        ]
        later = int(time.time()) + 3600
        acks = call("PutURLs", fetched(got[0]), fetched(got[1], later), fetched(got[0]))
        assert {ack.status for ack in acks} == {messages.AckMessage.OK}
        [stats] = call("GetStats", messages.QueueWithinCrawlParams(crawlID="c", key="a.test"))
        assert (stats.size, stats.inProcess, stats.counts["completed"], stats.crawlID) == (3, 0, 1, "c")

        call("SetDelay", messages.QueueDelayParams(crawlID="c", key="a.test", delay_requestable=0))
        call("BlockQueueUntil", messages.BlockQueueParams(crawlID="c", key="a.test", time=later))
        assert call("GetURLs", messages.GetParams(crawlID="c", key="a.test")) == []
        call("BlockQueueUntil", messages.BlockQueueParams(crawlID="c", key="a.test", time=0))
        assert len(call("GetURLs", messages.GetParams(crawlID="c", key="a.test", max_urls_per_queue=1))) == 1

        if "SetCrawlLimit" in has:
            limit = messages.CrawlLimitParams(crawlID="c", key="b.test", limit=1)
            call("SetCrawlLimit", limit)
            [info] = call("GetURLs", messages.GetParams(crawlID="c", key="b.test", max_urls_per_queue=1))
            call("SetDelay", messages.QueueDelayParams(crawlID="c", key="b.test", delay_requestable=0))
            call("PutURLs", fetched(info))
            assert call("GetURLs", messages.GetParams(crawlID="c", key="b.test")) == []
            limit.key = "z.test"
            assert client.call("SetCrawlLimit", limit)[1] == "UNKNOWN"
        if "GetURLStatus" in has:
            [item] = call("GetURLStatus", messages.URLStatusRequest(crawlID="c", url=got[1].url))
            assert (item.known.refetchable_from_date, item.known.info.key) == (later, "a.test")
            assert client.call("GetURLStatus", messages.URLStatusRequest(crawlID="c", url="http://z.test/"))[1] == (
                "NOT_FOUND"
            )
        if "ListURLs" in has:
            listed = call("ListURLs", messages.ListUrlParams(crawlID="c", key="a.test"))
            assert {item.known.info.url for item in listed} == {"http://k.test/", *urls[::2]}
        if "CountURLs" in has:
            [count] = call("CountURLs", messages.CountUrlParams(crawlID="c", filter="B.TEST", ignoreCase=True))
            assert count.value == 3
        caplog.set_level(logging.NOTSET, "budgetfrontier.urlfrontier")  # which is set again at the end
        call(
            "SetLogLevel",
            messages.LogLevelParams(package="budgetfrontier.urlfrontier", level=messages.LogLevelParams.WARN),
        )
        assert call("DeleteQueue", messages.QueueWithinCrawlParams(crawlID="c", key="a.test"))[0].value == 4
        assert call("DeleteCrawl", messages.DeleteCrawlMessage(value="c"))[0].value == 3
        assert list(call("ListCrawls", messages.Local())[0].values) == []
