"""Spiders on a crawl in partitions, one of which moves to another worker."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest
from scrapy import Request

from budgetfrontier import SettingsError
from budgetfrontier.cluster.client import ClusterFrontier
from tests.cluster.workers import addressed
from tests.scrapy.crawler import scheduler, stats
from tests.scrapy.test_remote import enqueue, take, told

URLS = [f"https://host{number}.test/" for number in range(8)]


def test_processes_share_a_crawl_while_a_partition_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with addressed(tmp_path, monkeypatch) as cluster:
        shared = partial(scheduler, BUDGETFRONTIER_URL=cluster.address, BUDGETFRONTIER_PREFETCH=4)
        with ClusterFrontier("test", cluster.directory) as frontier, shared() as one:
            enqueue(one, *map(Request, URLS), Request(URLS[0], dont_filter=True))
            enqueue(one, Request(f"{URLS[0]}again", meta={"budgetfrontier_budget": 5}))
            queue = frontier.queue("host0.test")
            assert queue is not None and queue.total_budget == 5
            with shared() as other:
                took = take(other, 3)
                cluster.take_over(0)
                cluster.take_over(1)
                enqueue(other, Request("https://new.test/"), Request(URLS[1]))
                other.next_request()  # which tells of the three that have ended
                told(other)
                assert stats(other)["dupefilter/filtered"] == 1
            assert frontier.summary().disregarded == 3, "told to whoever has their partitions"
            assert frontier.summary().in_process <= 4, "what the other process had leased ahead is given back"
            rest = {request.url for request in take(one, 8)}
            assert {request.url for request in took} | rest == {*URLS, f"{URLS[0]}again", "https://new.test/"}
        assert "Sharing the crawl in partitions at kafka://memory/test" in caplog.text
        with pytest.raises(SettingsError, match=r"BUDGETFRONTIER_CRAWL is 'pages', and the crawl of .* 'test'"):
            shared(BUDGETFRONTIER_CRAWL="pages").__enter__()
        with pytest.raises(SettingsError, match=r'"unix:PATH" or "kafka://HOST:PORT/CRAWL", not \'kafka://memory\''):
            scheduler(BUDGETFRONTIER_URL="kafka://memory?secret=x").__enter__()
