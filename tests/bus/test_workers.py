"""A whole crawl over each transport: two workers of each role and two spiders, started in different orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Self

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.interface import Bus
from budgetfrontier.bus.messages import PageCrawled, Request, Response
from budgetfrontier.bus.streams import DATABASE, OPERATORS, SPIDERS, STATISTICS, STRATEGY, Stream, Streams
from budgetfrontier.bus.workers import loop
from budgetfrontier.bus.workers.database import DatabaseWorker
from budgetfrontier.bus.workers.loop import BusWorker
from budgetfrontier.bus.workers.strategies import BreadthFirst
from budgetfrontier.bus.workers.strategy import StrategyWorker
from budgetfrontier.scrapy.bus.bus_threads import FeedReader, LogSender
from budgetfrontier.scrapy.bus.report_batching import Reports
from tests.bus.conformance import PARTITIONS, Transport
from tests.bus.workers.world import SETTINGS, Graph, a_graph
from tests.support import until
from tests.tools.importers.redis.server import needs_server

_crawls = count()


def streams_of(prefix: str) -> Streams:
    """All streams with as many partitions as a mock broker of Kafka gives every topic."""
    return Streams(
        Stream(f"{prefix}-done", PARTITIONS, (DATABASE, STRATEGY)),
        Stream(f"{prefix}-score", PARTITIONS, (DATABASE,)),
        Stream(f"{prefix}-todo", PARTITIONS, (SPIDERS,)),
        Stream(f"{prefix}-stats", PARTITIONS, (STATISTICS,), 100),
        Stream(f"{prefix}-dead", PARTITIONS, (OPERATORS,), 100),
    )


class Crawl:
    """The processes of a crawl, each with a connection of its own; workers in threads."""

    def __init__(self, transport: Transport, folder: Path, graph: Graph) -> None:
        self.graph, self.fetched = graph, Counter[str]()
        self.names, self.codec = streams_of(f"crawl-{next(_crawls)}"), Codec()
        self.transport, self.folder = transport, folder
        self.spiders: list[Callable[[], None]] = []
        self.failures: list[BaseException] = []
        self._stop, self._exits = Event(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._exits.close()

    def bound(self, number: int) -> tuple[int, ...]:
        """The partitions of the first or the second of two workers."""
        return tuple(range(number, PARTITIONS, 2))

    def shared(self, number: int) -> tuple[int, ...]:
        """The same where joining a group takes seconds; elsewhere a share."""
        return self.bound(number) if self.transport.joins_slowly else ()

    @contextmanager
    def database(self, number: int, bus: Bus) -> Iterator[BusWorker]:
        with Frontier.open(self.folder / f"db{number}", SETTINGS, keep_leases=True) as frontier:
            yield DatabaseWorker(
                frontier, bus, self.names, self.codec, partitions=self.bound(number), max_next_requests=5
            )

    @contextmanager
    def strategy(self, number: int, bus: Bus) -> Iterator[BusWorker]:
        yield StrategyWorker(BreadthFirst(), bus, self.names, self.codec, partitions=self.shared(number))

    def start(self, name: str) -> None:
        role, number = name[:-1], int(name[-1])
        if role == "spider":
            self._start_spider(number)
            return
        thread = Thread(target=self._run, args=(getattr(self, role), number), name=name)
        thread.start()
        self._exits.callback(thread.join)

    def _run(self, make: Callable[[int, Bus], Iterator[BusWorker]], number: int) -> None:
        try:
            with closing(self.transport.bus()) as bus, make(number, bus) as worker:  # type: ignore[attr-defined]
                loop.run(worker, bus, self.names, self.codec, every=0.2, stopped=self._stop.wait)
                worker.close()
        except BaseException as error:
            self.failures.append(error)

    def _start_spider(self, number: int) -> None:
        sender = LogSender(self.transport.bus, self.names, self.codec, wake=lambda: None)
        reader = FeedReader(
            self.transport.bus, self.names, self.codec,
            partitions=self.shared(number), prefetch=4, wake=lambda: None,
        )  # fmt: skip
        reports = Reports(self.codec, PARTITIONS)
        reports.add_seed(Request(next(iter(self.graph))))

        def step() -> None:
            if (fed := reader.take()) is not None:
                url = fed.request.url
                self.fetched[url] += 1
                for link in self.graph[url]:
                    reports.add_link(fed.request, Request(link))
                reports.add_result(PageCrawled(Response(url, 200, request=fed.request)))
            messages, errors = reports.taken()
            assert not errors and reader.failed is None and sender.failed is None
            sender.send(messages)

        self.spiders.append(step)
        self._exits.callback(sender.close, 30.0)
        self._exits.callback(reader.close, 30.0)

    def succeeded(self) -> int:
        """Return the pages that the database workers have committed."""
        total = 0
        for number in (0, 1):
            with Reader(self.folder / f"db{number}") as reader:
                total += reader.summary().succeeded
        return total

    def step(self) -> None:
        """Let the spiders work."""
        assert not self.failures
        for spider in self.spiders:
            spider()


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("zmq", "spider0 spider1 strategy0 database0 database1 strategy1"),
        pytest.param("redis", "database0 strategy0 spider0 database1 spider1 strategy1", marks=needs_server),
        ("kafka", "strategy1 spider1 spider0 strategy0 database1 database0"),
    ],
    ids=["zmq", "redis", "kafka"],
)
def test_a_whole_crawl(name: str, order: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    transport, graph = request.getfixturevalue(f"{name}_transport"), a_graph(40, hosts=8)
    with Crawl(transport, tmp_path, graph) as crawl, closing(transport.bus()) as bus:
        for each in order.split():
            crawl.start(each)
            crawl.step()

        def is_over() -> bool:
            crawl.step()
            return set(crawl.fetched) == set(graph)

        until(is_over)
        until(lambda: crawl.succeeded() == len(graph))  # a lag of 0 says nothing of what spiders have not sent yet
        until(lambda: not any(bus.lag(crawl.names.spider_log, DATABASE)))
        until(lambda: sum(bus.lag(crawl.names.statistics, STATISTICS)) > 3)
    assert not crawl.failures
    totals = []
    for number in (0, 1):
        with Frontier.open(tmp_path / f"db{number}", keep_leases=True) as frontier:
            frontier.check()
            totals.append(frontier.summary())
    assert sum(total.succeeded for total in totals) == len(graph)
    assert sum(total.expenditure for total in totals) == len(graph)
    assert all(total.succeeded and not total.queued for total in totals)
