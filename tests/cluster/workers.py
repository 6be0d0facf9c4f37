"""Workers in threads of this process, on logs in memory, served over Unix sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Settings
from budgetfrontier.bus.interface import LATER, Received, Start
from budgetfrontier.bus.streams import Stream
from budgetfrontier.cluster.calls import cluster_calls, cluster_transport, partition_router
from budgetfrontier.cluster.directory import kafka
from budgetfrontier.cluster.workers.worker import ClusterWorker
from budgetfrontier.cluster.workers.worker_crawl import WorkerCrawls
from budgetfrontier.leasing import NO_DELAYS
from budgetfrontier.server import frontier_service, server
from budgetfrontier.server.server import Offered
from budgetfrontier.server.stopping import Stop
from budgetfrontier.settings.schema import FrontierSettings
from tests.cluster.memory_directory import MemoryDirectory
from tests.support import PATIENCE, until


class Logs:
    """The logs of all partitions, each a list of entries with their times: an entry's offset is its place."""

    def __init__(self, partitions: int) -> None:
        self.entries: list[list[tuple[bytes, float]]] = [[] for _ in range(partitions)]
        self.begins: dict[int, int] = {}
        """By partition whose first entries were deleted: the first that is there."""
        self.changed = threading.Condition()
        self.time: Callable[[], float] = time.time
        """The clock of the broker, which stamps entries."""


class LogBus:
    """A bus on such logs, each of whose consumers is given the same partitions."""

    def __init__(self, logs: Logs, mine: Iterable[int]) -> None:
        self._logs, self._mine = logs, tuple(mine)

    def producer(self, stream: Stream) -> LogProducer:
        """Return a producer."""
        return LogProducer(self._logs)

    def consumer(
        self, stream: Stream, group: str, *, partitions: tuple[int, ...] = (), start: Start | None = None
    ) -> LogConsumer:
        """Return a consumer."""
        return LogConsumer(self._logs, partitions or self._mine, start)

    def lag(self, stream: Stream, group: str) -> list[int]:
        """Return nothing: no offsets are committed here."""
        return []

    def begins(self, stream: Stream, partition: int) -> int | None:
        """Return the first entry that is there, if some are not; these logs leave no offsets out."""
        return self._logs.begins.get(partition)

    def log_id(self, stream: Stream) -> None:
        """Return None: these logs are never made anew."""

    def close(self) -> None:
        """Do nothing."""


class LogProducer:
    """Appends to the logs."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def send(self, *messages: bytes, partition: int = 0) -> None:
        """Append messages."""
        with self._logs.changed:
            self._logs.entries[partition] += ((message, self._logs.time()) for message in messages)
            self._logs.changed.notify_all()

    def flush(self, timeout: float = 0.0) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class LogConsumer:
    """Reads some logs."""

    def __init__(self, logs: Logs, mine: tuple[int, ...], start: Start | None) -> None:
        self._logs, self._start = logs, start
        self.partitions = frozenset(mine)
        self._next: dict[int, int] = {}

    def poll(self, count: int = 512, timeout: float = 0.1) -> list[Received]:
        """Return what is new."""
        if not self._next:
            assert self._start is not None
            self._next = {number: self._start(number) or 0 for number in self.partitions}
        with self._logs.changed:
            self._logs.changed.wait_for(lambda: any(map(self._has_more, self._next)), timeout)
            found: list[Received] = []
            for number, offset in self._next.items():
                if offset == LATER:
                    continue
                offset = max(offset, self._logs.begins.get(number, 0))
                new = self._logs.entries[number][offset : offset + count]
                found += (Received(number, offset + place, *entry) for place, entry in enumerate(new))
                self._next[number] = offset + len(new)
        return found

    def _has_more(self, number: int) -> bool:
        return len(self._logs.entries[number]) > self._next[number]

    def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Do nothing."""

    def seek(self, partition: int, offset: int) -> None:
        """Go on with an offset."""
        self._next[partition] = offset

    def close(self) -> None:
        """Do nothing."""


class Cluster:
    """A crawl in partitions, all of which have owners."""

    def __init__(self, folder: Path, settings: Settings, partitions: int) -> None:
        self.crawl, self.logs, self.directory = settings.crawl, Logs(partitions), MemoryDirectory()
        self.address = f"kafka://memory/{settings.crawl}"
        self._folder, self._settings, self._partitions = folder, settings, partitions
        self.crawls: list[WorkerCrawls] = []
        """The crawls of its workers, in the order of their start."""
        self._stops: list[Stop] = []
        self._threads: list[threading.Thread] = []

    def start(self, mine: Iterable[int], *, listen: str | None = None, **access: Any) -> None:
        """Start a worker, which takes partitions over if another one has them; `access` are options of its server."""
        place = len(self._stops)
        self._stops.append(Stop())
        address = listen or f"unix:{self._folder}/{place}"
        worker = ClusterWorker(
            LogBus(self.logs, mine), self.directory, self._settings, self._folder / f"worker-{place}",
            partitions=self._partitions, address=address, log_end=lambda number: len(self.logs.entries[number]),
        )  # fmt: skip
        self.crawls.append(WorkerCrawls(worker))
        listening = threading.Event()
        serve = partial(_serve, worker, self.crawls[-1], address, self._stops[-1], listening, access)
        self._threads += [threading.Thread(target=worker.run), threading.Thread(target=serve)]
        for thread in self._threads[-2:]:
            thread.start()
        listening.wait()

    def take_over(self, number: int) -> None:
        """Start a worker that takes a partition over; return once it has it."""
        before = self.directory.read()[number].epoch
        self.start([number])
        until(lambda: self.directory.read()[number].epoch > before)

    def stop(self) -> None:
        """Stop all workers."""
        for stop in self._stops:
            stop.ask()
        for thread in self._threads:
            thread.join()


@contextmanager
def running(
    folder: Path,
    settings: Settings,
    owned: Iterable[Iterable[int]],
    partitions: int,
    access: Sequence[dict[str, Any]] = (),
    *,
    broker: Callable[[], float] | None = None,
) -> Iterator[Cluster]:
    """Run a worker for each of the sets of partitions; `access` are the options of their servers, if they have some.

    `broker` is the clock of the broker, if it is not that of this machine.
    """
    cluster = Cluster(folder, settings, partitions)
    cluster.logs.time = broker or cluster.logs.time
    try:
        for place, mine in enumerate(owned):
            cluster.start(mine, **(access[place] if place < len(access) else {}))
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def addressed(
    folder: Path, patch: pytest.MonkeyPatch, *, partitions: int = 2, patience: float = PATIENCE, **frontier: Any
) -> Iterator[Cluster]:
    """Run a worker for each partition of a crawl; who connects to its address finds them.

    Clients have so much `patience` with a worker that hangs, and with all at their end: one that is busy is waited for.
    """
    patch.setattr(cluster_transport, "SHORT", 0.0)
    for module in partition_router, cluster_calls:
        patch.setattr(module, "PATIENCE", patience)
    settings = Settings(crawl="test", frontier=FrontierSettings(politeness=NO_DELAYS, **frontier))
    with running(folder, settings, [[number] for number in range(partitions)], partitions) as cluster:
        patch.setattr(kafka, "KafkaDirectory", lambda where: cluster.directory)
        yield cluster


def _serve(
    worker: ClusterWorker,
    crawls: WorkerCrawls,
    address: str,
    stop: Stop,
    listening: threading.Event,
    options: dict[str, Any],
) -> None:
    @contextmanager
    def hand_over(crawls: Any, _: str) -> Iterator[Any]:
        with closing(frontier_service.FrontierService(crawls)) as service:
            worker.on_applied = partial(service.changed, worker.crawl)
            yield service.hand_over

    offered = Offered(frontier_service.FRONTIER.name, frontier_service.FRONTIER.methods, hand_over)
    server.serve_crawls(
        crawls, what="a test", listen=address, services=[offered], stop=stop,
        started=lambda _: listening.set(), **options,
    )  # fmt: skip
