"""The server is killed in mid-stream: nothing acknowledged is lost, and nothing leased is handed out twice."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import grpc
import pytest

from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from budgetfrontier.tools.cli import main
from tests.server.urlfrontier.service_client import OK, SKIPPED, Client, Process, discovered, info, known
from tests.sizes import sized
from tests.support import PATIENCE

pytestmark = pytest.mark.full_size

KILLS = sized(2, 5)
LEASE = 100_000
CRAWLS = ("a", "b")


class Crawler(threading.Thread):
    """Puts, leases and reports URLs of a crawl until the server is gone; knows what was promised to it."""

    def __init__(self, client: Client, crawl: str, number: int) -> None:
        super().__init__()
        self.client, self.crawl, self.number = client, crawl, number
        self.put: set[str] = set()
        self.leased: list[str] = []
        self.fetched: set[str] = set()
        self.steps = 0

    def run(self) -> None:
        try:
            while True:
                urls = [f"http://h{n % 20}.test/{self.number}/{self.steps}/{n}" for n in range(100)]
                for ack in self.client.rpc("PutURLs")(iter([discovered(url, self.crawl) for url in urls])):
                    assert ack.status == OK
                    self.put.add(ack.ID)
                more = [f"http://d{n % 20}.test/{self.number}/{self.steps}/{n}" for n in range(50)]
                batch = m.DiscoveredBatch(ID="1", items=[info(url, self.crawl) for url in more])
                for statuses in self.client.rpc("PutDiscovered")(iter([batch])):
                    assert set(statuses.statuses) == {OK}
                    self.put.update(more)
                request = m.GetParams(crawlID=self.crawl, max_urls_per_queue=5, delay_requestable=LEASE)
                mine = []
                for found in self.client.rpc("GetURLs")(request):
                    mine.append(found.url)
                    self.leased.append(found.url)
                items = [known(url, crawl=self.crawl) for url in mine[: len(mine) // 2]]
                for ack in self.client.rpc("PutURLs")(iter(items)):
                    assert ack.status == OK
                    self.fetched.add(ack.ID)
                self.steps += 1
        except grpc.RpcError as e:
            assert e.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), e


def test_kills_in_mid_stream(tmp_path: Path) -> None:
    jobs, chance = tmp_path / "jobs", random.Random(1)
    put: dict[str, set[str]] = {crawl: set() for crawl in CRAWLS}
    fetched: dict[str, set[str]] = {crawl: set() for crawl in CRAWLS}
    leased: dict[str, set[str]] = {crawl: set() for crawl in CRAWLS}
    for kill in range(KILLS):
        with Process(jobs) as server, server.client() as client:
            if not kill:
                client.SetDelay(delay_requestable=0)
            crawlers = [Crawler(client, crawl, kill) for crawl in CRAWLS]
            for crawler in crawlers:
                crawler.start()
            deadline = time.monotonic() + PATIENCE
            while min(crawler.steps for crawler in crawlers) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(chance.random() / 2)
            server.kill()
            for crawler in crawlers:
                crawler.join()
                assert crawler.steps
                put[crawler.crawl] |= crawler.put
                fetched[crawler.crawl] |= crawler.fetched
                assert len(set(crawler.leased)) == len(crawler.leased)
                assert leased[crawler.crawl].isdisjoint(crawler.leased)
                leased[crawler.crawl].update(crawler.leased)
    with Process(jobs) as server, server.client() as client:
        for crawl in CRAWLS:
            items = client.ListURLs(crawlID=crawl, size=1 << 30)
            dates = {item.known.info.url: item.known.refetchable_from_date for item in items}
            assert put[crawl] <= dates.keys()
            assert {dates[url] for url in fetched[crawl]} == {0}
            stats = client.GetStats(crawlID=crawl)
            assert stats.size + stats.counts["completed"] == len(dates)
            assert stats.counts["completed"] == sum(not date for date in dates.values()) >= len(fetched[crawl])
            assert stats.inProcess + stats.counts["completed"] >= len(leased[crawl])
            assert leased[crawl].isdisjoint(client.get(crawl))
        assert server.stop() == 0
    for crawl in CRAWLS:
        assert main(["verify", str(jobs / crawl)]) == 0


def test_what_is_set_survives_a_kill(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    hosts = ("delayed", "blocked", "limited", "leased", "free")
    with Process(jobs) as server, server.client() as client:
        client.put(*[discovered(f"http://{host}.test/{n}") for host in hosts for n in range(3)])
        client.SetDelay(crawlID="c", key="delayed.test", delay_requestable=LEASE)
        client.BlockQueueUntil(crawlID="c", key="blocked.test", time=1 << 33)
        client.SetCrawlLimit(crawlID="c", key="limited.test", limit=1)
        client.put(known("http://limited.test/0"))
        (first,) = client.get(key="leased.test", max_urls_per_queue=1, delay_requestable=LEASE)
        assert len(client.get(key="delayed.test", max_urls_per_queue=1, delay_requestable=1)) == 1
        client.SetDelay(delay_requestable=0)
        client.SetActive(state=False)
        server.kill()
    with Process(jobs) as server, server.client() as client:
        assert client.GetActive().state is False
        assert client.get() == []
        client.SetActive(state=True)
        assert client.GetStats(crawlID="c", key="leased.test").inProcess == 1
        client.SetDelay(crawlID="c", key="leased.test", delay_requestable=0)
        found = client.get()
        assert {url.split("/")[2] for url in found} == {"leased.test", "free.test"}
        assert first not in found
        assert client.put(discovered("http://new.test/1", "new"), discovered("http://new.test/2", "new")) == [OK, OK]
        for most in (1, 2):  # the default delay of new crawls is stored, too
            assert len(client.get("new", max_urls_per_queue=most)) == 1
        assert client.put(discovered(first)) == [SKIPPED]
        server.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_under_load(tmp_path: Path, number: int) -> None:
    jobs = tmp_path / "jobs"
    with Process(jobs) as server, server.client() as client:
        crawlers = [Crawler(client, crawl, n) for n, crawl in enumerate(("a", "a", "b", "b"))]
        for crawler in crawlers:
            crawler.start()
        deadline = time.monotonic() + PATIENCE
        while min(crawler.steps for crawler in crawlers) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.stop(number) == 0
        for crawler in crawlers:
            crawler.join()
        assert "Traceback" not in server.errors.read_text()
    with Process(jobs) as server, server.client() as client:
        for crawl in CRAWLS:
            kept = {item.known.info.url for item in client.ListURLs(crawlID=crawl, size=1 << 30)}
            for crawler in crawlers:
                assert crawler.crawl != crawl or crawler.put <= kept
        assert server.stop() == 0
    for crawl in CRAWLS:
        assert main(["verify", str(jobs / crawl)]) == 0
