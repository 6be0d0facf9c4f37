"""The metrics of a server for Prometheus: its calls, its crawls, and the open frontiers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.reports.metrics import PREFIX, Exposition, MetricsReading, Readings, read
from budgetfrontier.server.call_stats import BOUNDS, MethodStats
from budgetfrontier.server.crawls import Crawls
from budgetfrontier.storage.reader import Reader

MOST_CRAWLS = 100
"""Crawls that have metrics of their own: the first of those open."""
PATIENCE = 5.0
"""Seconds that crawls have to answer; one that does not, as in a long commit, is not readable this time."""

Stats = Mapping[tuple[str, str], MethodStats]
"""The calls of the RPCs of a server, by service and method."""


def exposition(crawls: Crawls, stats: Stats) -> Exposition:
    return Exposition(_readings(crawls), _ServerCollector(crawls, stats), ProcessCollector(registry=None))


def _readings(crawls: Crawls) -> Readings:
    """Return a reader of the frontiers of open crawls, each in its own thread: LMDB needs the writer's."""

    def read_all() -> dict[str, MetricsReading | None]:
        chosen = crawls.opened()[:MOST_CRAWLS]
        found: dict[str, MetricsReading | None] = {crawl.folder.parent.name: None for crawl in chosen}
        answers: SimpleQueue[tuple[str, MetricsReading | None]] = SimpleQueue()
        for crawl in chosen:

            def done(reading: Any, error: BaseException | None, name: str = crawl.folder.parent.name) -> None:
                answers.put((name, reading))

            crawl.submit(partial(_read, crawl.folder), done, changes=False, uses=False)
        until = monotonic() + PATIENCE
        try:
            for _ in chosen:
                name, reading = answers.get(timeout=max(until - monotonic(), 0.0))
                found[name] = reading
        except Empty:
            pass
        return found

    return read_all


def _read(folder: Path, frontier: Frontier) -> MetricsReading:
    """Read a frontier as of its last commit, in the thread that has it open."""
    with Reader(folder) as reader:
        return read(reader)


class _ServerCollector(Collector):
    """A collector of a server's counters in memory."""

    def __init__(self, crawls: Crawls, stats: Stats) -> None:
        self._crawls = crawls
        self._stats = stats

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the metrics need not be collected for their names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        labels = ("service", "method")
        open_calls = GaugeMetricFamily(f"{PREFIX}rpc_open", "Calls in progress.", labels=labels)
        calls = CounterMetricFamily(
            f"{PREFIX}rpc_calls", "Calls that have ended, by the status of gRPC.", labels=(*labels, "code")
        )
        messages = CounterMetricFamily(
            f"{PREFIX}rpc_messages", "Messages received and sent.", labels=(*labels, "direction")
        )
        durations = HistogramMetricFamily(
            f"{PREFIX}rpc_duration_seconds",
            "Seconds to the end of a call, or to the reply to a message of a stream, of which some are timed.",
            labels=labels,
        )
        for name, stats in self._stats.items():
            open_calls.add_metric(name, stats.open)
            for code, count in stats.ended.copy().items():
                calls.add_metric((*name, code), count)
            messages.add_metric((*name, "received"), stats.received)
            messages.add_metric((*name, "sent"), stats.sent)
            sums = accumulate(stats.counts.copy())
            buckets = [(_le(bound), float(count)) for bound, count in zip(BOUNDS, sums, strict=True)]
            durations.add_metric(name, buckets, stats.seconds)
        yield from (open_calls, calls, messages, durations)
        crawls = GaugeMetricFamily(f"{PREFIX}crawls", "Crawls that are open, and closed.", labels=["state"])
        count, opened = len(self._crawls.names()), len(self._crawls.opened())
        crawls.add_metric(["open"], opened)
        crawls.add_metric(["closed"], max(count - opened, 0))
        yield crawls
        yield GaugeMetricFamily(
            f"{PREFIX}active", "Whether the server leases URLs (SetActive).", value=float(self._crawls.active)
        )


def _le(bound: float) -> str:
    return "+Inf" if bound == BOUNDS[-1] else str(bound)
