"""The clients that addresses stand for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from budgetfrontier import connections
from budgetfrontier.aio import Scheduler
from budgetfrontier.cluster.asynchronous import AsyncClusterFrontier
from budgetfrontier.cluster.calls import cluster_transport, partition_router
from budgetfrontier.errors import ConnectionLost, FrontierError, MissingExtra, WrongAddress
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.remote import AsyncRemoteFrontier
from tests.scrapy.crawler import scheduler

CRAWL = "kafka://127.0.0.1:1,127.0.0.1:2/news?sasl.password=secret"


def test_an_address_stands_for_a_client_and_a_crawl() -> None:
    assert isinstance(connections.asynchronous("127.0.0.1:1"), AsyncRemoteFrontier)
    assert isinstance(connections.asynchronous(CRAWL), AsyncClusterFrontier)
    assert connections.crawl_at(CRAWL, "DEFAULT") == connections.crawl_at(CRAWL, "news") == "news"
    assert connections.crawl_at("unix:a", "b") == "b"
    with pytest.raises(FrontierError, match=r"is no address: give HOST:PORT"):
        connections.crawl_at("http://a/b", "c")
    for name in ("a%20b", "n%C3%A9ws", "x" * 241):  # of which no worker can have made topics
        with pytest.raises(FrontierError, match=r"cannot name the topics .*: use ASCII letters, digits"):
            connections.crawl_at(f"kafka://127.0.0.1:1/{name}", "DEFAULT")


@pytest.mark.parametrize("connect", [connections.connect, connections.asynchronous])
def test_an_address_with_a_crawl_and_an_empty_crawl_are_answered_with_the_remedy(connect: Any) -> None:
    with pytest.raises(WrongAddress, match=r"give '127.0.0.1:1', and the crawl as `crawl='news'`"):
        connect("127.0.0.1:1/news")
    with pytest.raises(WrongAddress, match=r"unix:PATH, or kafka://HOST:PORT/CRAWL$"):
        connect("nowhere")
    with pytest.raises(ValueError, match="`crawl` is empty: give the name of a crawl, or leave it out"):
        connect("127.0.0.1:1", crawl="")


def test_properties_of_kafka_are_in_no_message() -> None:
    assert repr(Scheduler.connect(CRAWL)) == (
        "<Scheduler the crawl in partitions at kafka://127.0.0.1:1,127.0.0.1:2/news new, 0 out, 0 waiting>"
    )
    with pytest.raises(FrontierError, match=r"^kafka://127.0.0.1:1,127.0.0.1:2/news is the crawl 'news', not 'other'"):
        connections.connect(CRAWL, crawl="other")
    with pytest.raises(FrontierError, match=r'the properties for Kafka are wrong: .* "foo"'):
        connections.connect("kafka://127.0.0.1:1/news?foo=secret")


def test_a_broker_that_is_away_is_waited_for_as_long_as_the_caller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_router, "PATIENCE", 0.05)
    monkeypatch.setattr(cluster_transport, "CANCELLED_WITHIN", 0.05)
    with pytest.raises(ConnectionLost, match=r"'news'"):
        connections.connect("kafka://127.0.0.1:1/news", retry_for=0.0)


def test_a_missing_extra_is_named_by_all_that_take_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in "budgetfrontier.cluster.directory.kafka", "budgetfrontier.bus.kafka":
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)

    def open_spider(url: str) -> None:
        with scheduler(BUDGETFRONTIER_URL=url):
            pass

    for connect in (LeaseQueue.connect, Scheduler.connect, open_spider):
        with pytest.raises(MissingExtra, match='this needs the extra "kafka"'):
            connect(CRAWL)
