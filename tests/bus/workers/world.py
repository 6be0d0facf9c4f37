"""A whole crawl in memory: a broker, two workers of each role and two spiders, each of which may be killed anywhere."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgetfrontier import Frontier, Settings
from budgetfrontier.bus import request_meta
from budgetfrontier.bus.broker import Operation
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.interface import Bus, BusAway, BusError, Received
from budgetfrontier.bus.log_client import LogBus
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.messages import AddSeeds, LinksExtracted, PageCrawled, Request, RequestError, Response
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.streams import SPIDERS, Streams, streams
from budgetfrontier.bus.workers.database import DatabaseWorker
from budgetfrontier.bus.workers.strategies import BreadthFirst
from budgetfrontier.bus.workers.strategy import StrategyWorker
from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.testing import ManualClock, crash

Graph = dict[str, list[str]]

SETTINGS = Settings.from_dict(
    {
        "crawl": "bus",
        "frontier": {
            "lease_ttl": 60,
            "commit_interval": 3600,
            "politeness": {"min_delay": 0, "delay_factor": 0},
            "retry": {"delay": 1, "max_retries": 100},
            "max_deliveries": 1000,
        },
    }
)
SESSION = 30.0
PROCESSES = ("db0", "db1", "strategy0", "strategy1", "spider0", "spider1")


def a_graph(pages: int = 9, hosts: int = 4) -> Graph:
    """Pages on a few hosts, all of them within reach of the first."""
    urls = [f"http://h{number % hosts}.test/{number}" for number in range(pages)]
    return {
        url: [urls[to] for to in (2 * place + 1, 2 * place + 2, place // 2) if to < pages]
        for place, url in enumerate(urls)
    }


class Spider:
    """The steps of a spider: each does one thing with the bus, or with a page."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._bus = world.bus()
        own = world.spider_partitions(number)
        self._consumer = self._bus.consumer(world.names.spider_feed, SPIDERS, partitions=own)
        self._producer = self._bus.producer(world.names.spider_log)
        self._received: deque[Received] = deque()
        self._seeds = [Request(world.seed)]
        self._known: set[object] = set()

    def step(self) -> None:
        """Send seeds, take requests, or fetch one: its links are sent before its result."""
        if self._seeds:
            self._send(AddSeeds(self._seeds), self._seeds[0].url)
            self._producer.flush()
            self._seeds = []
        elif not self._received:
            self._received.extend(self._consumer.poll(2, 0.0))
        else:
            received = self._received.popleft()
            self._consumer.commit({received.partition: received.offset + 1})
            request = self._world.codec.decode_request(received.data)
            lease = request_meta.lease_of(request.meta)
            if request.meta[request_meta.EXPIRES] > self._world.clock.time() and lease not in self._known:
                self._known.add(lease)
                self._fetch(request)
                self._producer.flush()

    def close(self) -> None:
        """Leave the feed: what was not taken goes to the other spider."""
        self._consumer.close()

    def _fetch(self, request: Request) -> None:
        world, url = self._world, request.url
        world.fetched[url] += 1
        if world.fails(url):
            self._send(RequestError(request, "no response"), url)
            return
        for link in world.graph[url]:
            self._send(LinksExtracted(request, [Request(link)]), link)
        self._send(PageCrawled(Response(url, 200, request=request)), url)

    def _send(self, message: AddSeeds | LinksExtracted | PageCrawled | RequestError, url: str) -> None:
        partition = by_host(url, self._world.names.spider_log.partitions)
        self._producer.send(self._world.codec.encode(message), partition=partition)


class World:
    """The broker, and the processes that run, by name."""

    def __init__(self, folder: Path, graph: Graph, *, bound: bool = True, failures: int = 0) -> None:
        """`bound`: whether each spider has a partition of its own; `failures`: how many first fetches fail."""
        self.graph, self.seed = graph, next(iter(graph))
        self.clock = ManualClock(1_000_000.0)
        self._broker = MemoryBroker(now=self.clock.time)
        self.names: Streams = streams(spider_log_partitions=2, spider_feed_partitions=2)
        self.codec = Codec()
        self.fetched: Counter[str] = Counter()
        self.running: dict[str, DatabaseWorker | StrategyWorker | Spider] = {}
        self._folder, self._bound = folder, bound
        self._frontiers: dict[str, Frontier] = {}
        self._failing = set(list(graph)[:failures])
        self._calls_until_failure: int | None = None

    def bus(self) -> Bus:
        """A connection whose calls fail as `fail_call` says."""
        return LogBus(self._call, lambda: None, session=SESSION)

    def fail_call(self, number: int) -> None:
        """Let a call of the bus fail, the first if it is 0: odd ones after the broker has done what was asked."""
        self._calls_until_failure = number

    def _call(self, operation: Operation, timeout: float) -> Any:
        number, self._calls_until_failure = self._calls_until_failure, None
        if number is not None and number > 1:
            self._calls_until_failure = number - 2
        if number == 0:
            raise BusAway("this call was not made")
        answer = self._broker.perform(operation)
        if number == 1:
            raise BusAway("the answer was lost")
        return answer

    def spider_partitions(self, number: int) -> tuple[int, ...]:
        return (number,) if self._bound else ()

    def fails(self, url: str) -> bool:
        return self.fetched[url] == 1 and url in self._failing

    # -- processes

    def start(self, name: str) -> None:
        """Start a process that does not run."""
        if name in self.running:
            return
        number = int(name[-1])
        if name.startswith("db"):
            frontier = Frontier.open(self._folder / name, SETTINGS, clock=self.clock, keep_leases=True)
            self._frontiers[name] = frontier
            self.running[name] = DatabaseWorker(
                frontier, self.bus(), self.names, self.codec, partitions=[number], max_next_requests=3, batch=4,
                clock=self.clock,
            )  # fmt: skip
        elif name.startswith("strategy"):
            self.running[name] = StrategyWorker(
                BreadthFirst(), self.bus(), self.names, self.codec, batch=2, remember=10
            )
        else:
            self.running[name] = Spider(self, number)

    def kill(self, name: str) -> None:
        """End a process without a word."""
        if self.running.pop(name, None) is not None and name in self._frontiers:
            crash(self._frontiers.pop(name))

    def stop(self, name: str) -> None:
        """End a process as SIGTERM does."""
        if (process := self.running.pop(name, None)) is not None:
            process.close()
            if name in self._frontiers:
                self._frontiers.pop(name).close()

    def phases(self, name: str) -> list[Callable[[], object]]:
        """The parts of a step, between any two of which the process may be killed."""
        process = self.running[name]
        if isinstance(process, Spider):
            return [process.step]
        if isinstance(process, StrategyWorker):
            return [process.send, lambda: process.receive(0.0), process.send, process.acknowledge]
        return [process.send, lambda: process.receive(0.0), process.apply, process.send, process.acknowledge]

    def step(self, name: str, parts: int = 9) -> None:
        """Do the first parts of a step of a process that runs; the bus may fail in one, which ends the step."""
        if name in self.running:
            with suppress(BusError):
                for part in self.phases(name)[:parts]:
                    part()
            self._calls_until_failure = None

    # -- the end

    def finish(self, names: Iterable[str] = PROCESSES) -> None:
        """Start what does not run, and go on until the crawl is over."""
        names = list(names)
        for name in names:
            self.start(name)
        idle = 0
        for _ in range(3000):
            before = self._state()
            for name in names:
                self.step(name)
            idle = idle + 1 if before == self._state() else 0
            if idle:
                self.clock.advance(1.0 if idle < 5 else 20.0)
            if idle > 12 and self._is_over():
                return
        raise AssertionError(f"the crawl does not end: {self._state()}")

    def totals(self) -> list[Summary]:
        """The counters of both frontiers, which are checked."""
        for frontier in self._frontiers.values():
            frontier.check()
        return [frontier.summary() for frontier in self._frontiers.values()]

    def close(self) -> None:
        for frontier in self._frontiers.values():
            frontier.close()

    def _is_over(self) -> bool:
        states = {frontier.state for frontier in self._frontiers.values()}
        return states <= {CrawlState.NEW, CrawlState.FINISHED}

    def _state(self) -> object:
        bus = self.bus()
        lags = [bus.lag(one, group) for one in (self.names.spider_log, self.names.scoring_log, self.names.spider_feed)
                for group in one.groups]  # fmt: skip
        return lags, [(total.queued, total.succeeded, total.in_process) for total in
                      (frontier.summary() for frontier in self._frontiers.values())]  # fmt: skip
