"""Random sequences of all calls, beside a model of the service."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock, WallClock
from budgetfrontier.server.urlfrontier import engine_calls, service
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from tests.server.urlfrontier.service_client import Client, discovered, info, known, serving
from tests.server.urlfrontier.service_model import SKIPPED, Crawl, Model
from tests.sizes import sized

LENGTH = int(os.environ.get("FUZZ_LENGTH", "400"))
pytestmark = pytest.mark.full_size

SEEDS = range(int(os.environ.get("FUZZ_SEEDS", sized(2, 4))))
START = 2_000_000_000.25

HOSTS = {
    "http://a.test/": "a.test",
    "https://A.test/": "a.test",
    "http://b.test:8080/": "b.test:8080",
    "http://user:word@c.test/": "c.test",
    "http://[::1]:81/": "[::1]:81",
    "http://d.test/": "d.test",
}
CRAWLS = ("", "c", "a/../b")
KEYS = (*dict.fromkeys(HOSTS.values()), "given")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The time of the server, which moves when the test says so."""
    clock = ManualClock(START)
    for module in (engine_calls, service):  # not `time.time` itself, by which gRPC waits
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(WallClock, "time", staticmethod(clock.time))
    monkeypatch.setattr(WallClock, "steady", staticmethod(clock.time))
    return clock


class Driver:
    """Makes random calls of a server, and compares each answer with that of the model."""

    def __init__(self, client: Client, clock: ManualClock, seed: int) -> None:
        self.client = client
        self.clock = clock
        self.random = random.Random(seed)
        self.model = Model()
        self.log: list[str] = []

    @property
    def now(self) -> float:
        return self.clock.time()

    def url(self) -> tuple[str, str, str]:
        """A URL, its form in answers, and the key of its queue."""
        start, key = self.random.choice(list(HOSTS.items()))
        url = start + str(self.random.randrange(30))
        return url, url.replace("A.test", "a.test"), key

    def crawl(self) -> str:
        return self.random.choice(CRAWLS)

    def key(self) -> str:
        return self.random.choice((*KEYS, "unknown"))

    def step(self) -> None:
        calls: list[tuple[float, Callable[[], None]]] = [
            (8, self.put), (4, self.put_batch), (8, self.get), (6, self.move), (2, self.block), (2, self.delay),
            (2, self.limit), (1, self.set_active), (3, self.stats), (2, self.status), (2, self.list), (1, self.queues),
            (0.3, self.delete), (0.2, self.purge), (0.1, self.delete_crawl), (0.2, self.crawls), (1, self.get_any),
        ]  # fmt: skip
        weights = [weight for weight, _ in calls]
        ((_, call),) = self.random.choices(calls, weights)
        call()

    def say(self, *words: object) -> None:
        self.log.append(f"{self.now - START:.2f} " + " ".join(map(str, words)))

    def put(self) -> None:
        now, items, expected = self.now, [], []
        for number in range(self.random.randint(1, 8)):
            crawl, (url, shown, key) = self.crawl(), self.url()
            given = self.random.choice(("", "", "", "given"))
            kind = self.random.random()
            if kind < 0.05:
                bad = self.random.choice(["nonsense", "", "http://", "http://a.test/" + "x" * 100_000])
                is_known = self.random.random() < 0.5
                item = known(bad, 0, crawl, id=str(number)) if is_known else discovered(bad, crawl, id=str(number))
                items.append(item)
                self.model.crawls.setdefault(crawl, Crawl())
                expected.append(SKIPPED)
            elif kind < 0.5:
                items.append(discovered(url, crawl, given, id=str(number), x="1"))
                expected.append(self.model.discover(crawl, shown, given or key, now))
            else:
                date = self.random.choice([0, 0, int(now) + 5, int(now) + 60])
                place = self.model.crawls.get(crawl, Crawl()).place(shown)
                given = given and place[0] if place else given  # the key that it has, or none
                items.append(known(url, date, crawl, given, id=str(number), y="2"))
                expected.append(self.model.report(crawl, shown, given or key, date, now))
            self.say("put", repr(crawl), url, given, str(items[-1].WhichOneof("item")), expected[-1])
        assert self.client.put(*items) == expected

    def put_batch(self) -> None:
        infos, expected = [], []
        for _ in range(self.random.randint(0, 6)):
            crawl, (url, shown, key) = self.crawl(), self.url()
            infos.append(info(url, crawl, bf_cost=self.random.choice([0, 1, 7]), bf_priority=3))
            expected.append(self.model.discover(crawl, shown, key, self.now))
        (ack,) = self.client.PutDiscovered([m.DiscoveredBatch(ID="b", items=infos)])
        self.say("batch", [each.url for each in infos], expected)
        assert (ack.ID, list(ack.statuses)) == ("b", expected)

    def get(self) -> None:
        crawl = self.crawl()
        most, queues = self.random.choice([0, 1, 2, 5]), self.random.choice([0, 1, 2])
        key = self.random.choice(["", "", self.key()])
        ttl = self.random.choice([0, 2, 5])
        eligible = self.model.eligible(crawl, most, self.now)
        found = self.client.GetURLs(
            crawlID=crawl, key=key, max_urls_per_queue=most, max_queues=queues, delay_requestable=ttl
        )
        self.say("get", repr(crawl), key, most, queues, ttl, [each.url for each in found], eligible)
        if key:
            eligible = {key: eligible[key]} if key in eligible else {}
        self.take(crawl, found, eligible, queues, ttl)

    def take(self, crawl: str, found: list[Any], eligible: dict[str, int], queues: int, ttl: float) -> None:
        by_key: dict[str, list[str]] = {}
        for each in found:
            assert each.crawlID == (crawl or "DEFAULT")
            by_key.setdefault(each.key, []).append(each.url)
        assert set(by_key) <= set(eligible)
        assert len(by_key) == min(queues or len(eligible), len(eligible))
        for key, urls in by_key.items():
            assert len(urls) == len(set(urls)) == eligible[key]
            assert set(urls) <= set(self.model.crawls[crawl].queues[key].available(self.now))
            self.model.lease(crawl, key, urls, ttl, self.now)

    def get_any(self) -> None:
        chosen = {crawl: self.model.eligible(crawl, 1, self.now) for crawl in CRAWLS}
        found = self.client.GetURLs(
            self.random.choice([m.GetParams(max_urls_per_queue=1), m.GetParams(max_urls_per_queue=1, anyCrawlID={})])
        )
        self.say("any", [each.url for each in found])
        for crawl in CRAWLS:
            mine = [each for each in found if each.crawlID == (crawl or "DEFAULT")]
            self.take(crawl, mine, chosen[crawl], 0, 0)
        assert self.client.GetURLs(key=self.key()) == []

    def move(self) -> None:
        self.clock.advance(self.random.choice([0.1, 0.5, 1.0, 2.0, 5.0, 31.0]))

    def block(self) -> None:
        crawl, key = self.crawl(), self.key()
        until = self.random.choice([0, int(self.now) + 3, int(self.now) + 20, int(self.now) - 5])
        self.say("block", repr(crawl), key, until - START)
        self.client.BlockQueueUntil(crawlID=crawl, key=key, time=until)
        queue = self.model.known(crawl, key)
        if queue is not None:
            queue.blocked = float(until)

    def delay(self) -> None:
        crawl, key, delay = (
            self.crawl(),
            self.random.choice(["", self.key(), self.key()]),
            self.random.choice([0, 1, 2, 7]),
        )
        self.say("delay", repr(crawl), key, delay)
        self.client.SetDelay(crawlID=crawl, key=key, delay_requestable=delay)
        self.model.pace(crawl, key, delay)

    def limit(self) -> None:
        crawl, key, limit = self.crawl(), self.key(), self.random.choice([0, 1, 3, 10, 1000])
        self.say("limit", repr(crawl), key, limit)
        queue = self.model.known(crawl, key)
        try:
            self.client.SetCrawlLimit(crawlID=crawl, key=key, limit=limit)
        except grpc.RpcError as e:
            assert e.code() is grpc.StatusCode.UNKNOWN
            assert queue is None
        else:
            assert queue is not None
            queue.limit = limit

    def set_active(self) -> None:
        self.model.active = self.random.random() < 0.7
        self.say("active", self.model.active)
        self.client.SetActive(state=self.model.active)
        assert self.client.GetActive().state is self.model.active

    def stats(self) -> None:
        crawl, key = self.crawl(), self.random.choice(["", self.key()])
        found = self.client.GetStats(crawlID=crawl, key=key)
        counts = found.counts
        assert found.crawlID == (crawl or "DEFAULT")
        assert (
            found.size, found.inProcess, found.numberOfQueues, counts["completed"], counts["active_queues"]
        ) == self.model.stats(crawl, key, self.now)  # fmt: skip

    def status(self) -> None:
        crawl, (url, shown, _) = self.crawl(), self.url()
        key = self.random.choice(["", "", self.key()])
        place = self.model.crawls.get(crawl, Crawl()).place(shown)
        try:
            found = self.client.GetURLStatus(url=url, key=key, crawlID=crawl)
        except grpc.RpcError as e:
            assert e.code() is grpc.StatusCode.NOT_FOUND
            assert place is None or key not in ("", place[0])
            return
        assert place is not None
        self.check_item(crawl, found, place[0])

    def check_item(self, crawl: str, item: Any, key: str) -> None:
        row = self.model.crawls[crawl].queues[key].urls[item.known.info.url]
        assert (item.known.info.key, item.known.info.crawlID) == (key, crawl or "DEFAULT")
        assert item.creation_date == row.created
        date = item.known.refetchable_from_date
        if row.due is None:
            assert date == 0
        else:
            assert date == int(row.due)

    def list(self) -> None:
        crawl, key = self.crawl(), self.random.choice(["", self.key()])
        text, ignores = self.random.choice([("", False), ("TEST/1", True), ("TEST/1", False), ("word@", False)])
        expected = self.model.listed(crawl, key, text, ignore_case=ignores)
        options = {"crawlID": crawl, "key": key} | ({"filter": text, "ignoreCase": ignores} if text else {})
        assert self.client.CountURLs(**options).value == len(expected)
        size = self.random.choice([7, 1000])
        found: list[Any] = []
        while page := self.client.ListURLs(**options, start=len(found), size=size):
            assert len(page) <= size
            found += page
        assert Counter(each.known.info.url for each in found) == Counter(expected)
        for each in found:
            self.check_item(crawl, each, each.known.info.key)
        assert len(self.client.ListURLs(**options)) == min(100, len(expected))

    def queues(self) -> None:
        crawl, inactive = self.crawl(), self.random.random() < 0.5
        expected = self.model.keys(crawl, self.now, inactive=inactive)
        found: list[str] = []
        while page := self.client.ListQueues(crawlID=crawl, include_inactive=inactive, start=len(found), size=2).values:
            found += page
        assert Counter(found) == Counter(expected)

    def delete(self) -> None:
        crawl, key = self.crawl(), self.key()
        self.say("delete", repr(crawl), key)
        assert self.client.DeleteQueue(crawlID=crawl, key=key).value == self.model.forget(crawl, key, self.now)
        if crawl in self.model.crawls:
            self.model.crawls[crawl].queues.pop(key, None)

    def purge(self) -> None:
        crawl, key, days = self.crawl(), self.random.choice(["", self.key()]), self.random.choice([0, 1, 100])
        self.say("purge", repr(crawl), key, days)
        count = self.client.PurgeURLs(crawlID=crawl, key=key, days=days).value
        assert count == self.model.forget(crawl, key, int(self.now) - days * 86_400)

    def delete_crawl(self) -> None:
        crawl = self.crawl()
        self.say("delete crawl", repr(crawl))
        assert self.client.DeleteCrawl(value=crawl).value == self.model.forget(crawl, "", self.now)
        self.model.crawls.pop(crawl, None)

    def crawls(self) -> None:
        assert set(self.client.ListCrawls().values) == {crawl or "DEFAULT" for crawl in self.model.crawls}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_that_of_the_model(tmp_path: Path, clock: ManualClock, seed: int) -> None:
    jobs = tmp_path / "jobs"
    driver: Driver | None = None
    for _ in range(2):  # the second half on a server that was started again
        with serving(jobs) as client:
            driver = driver or Driver(client, clock, seed)
            driver.client = client
            for _ in range(LENGTH // 2):
                try:
                    driver.step()
                except BaseException as e:
                    e.add_note("\n".join(driver.log[-40:]))
                    raise
    for job in jobs.glob("*/frontier"):
        with Frontier.open(job, keep_leases=True, clock=clock) as frontier:
            frontier.check()
