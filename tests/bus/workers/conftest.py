"""A database worker on a frontier on disk, and what is at the other ends of its bus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.dead_letters import RejectedMessage, read_dead_letter
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.messages import Message, Request
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.streams import OPERATORS, SPIDERS, Stream, streams
from budgetfrontier.bus.workers.database import DatabaseWorker
from budgetfrontier.testing import ManualClock, crash


class Desk:
    """The worker, and the hands of strategy workers and spiders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(1_000_000.0)
        self.bus = MemoryBroker(now=self.clock.time).bus()
        self.names, self.codec = streams(spider_feed_partitions=2), Codec()
        self.settings: dict[str, Any] = {"politeness": {"min_delay": 0, "delay_factor": 0}, "commit_interval": 3600}
        self._feed = self.bus.consumer(self.names.spider_feed, SPIDERS)
        self.open()

    def open(self, **options: Any) -> None:
        self.frontier = Frontier.open(
            self.folder, Settings.from_dict({"frontier": self.settings}), clock=self.clock, keep_leases=True
        )
        self.worker = DatabaseWorker(self.frontier, self.bus, self.names, self.codec, clock=self.clock, **options)

    def reopen(self, *, kill: bool = False, **options: Any) -> None:
        if kill:
            crash(self.frontier)
        else:
            self.worker.close()
            self.frontier.close()
        self.open(**options)

    def send(self, stream: Stream, *messages: Message | bytes) -> None:
        producer = self.bus.producer(stream)
        for message in messages:
            producer.send(message if isinstance(message, bytes) else self.codec.encode(message))
        producer.flush()

    def score(self, *messages: Message | bytes) -> None:
        """Send to the scoring log, and let the worker have a step."""
        self.send(self.names.scoring_log, *messages)
        self.worker.step()

    def report(self, *messages: Message | bytes) -> None:
        """Send to the spider log, and let the worker have a step."""
        self.send(self.names.spider_log, *messages)
        self.worker.step()

    def fed(self, *, commit: bool = True) -> list[Request]:
        """What has come to the feed since the last time."""
        received = self._feed.poll(1000, 0.0)
        if commit:
            self._feed.commit()
        requests = [self.codec.decode_request(each.data) for each in received]
        assert [each.partition for each in received] == [by_host(each.url, 2) for each in requests]
        return requests

    def rejected(self) -> list[RejectedMessage]:
        consumer = self.bus.consumer(self.names.dead_letters, OPERATORS)
        return [read_dead_letter(each.data) for each in consumer.poll(100, 0.0)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path / "frontier") as desk:
        yield desk


@contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    """A desk whose frontier is closed at the end."""
    desk = Desk(folder)
    try:
        yield desk
    finally:
        desk.frontier.close()


def lease_id(request: Request) -> object:
    return request.meta[request_meta.LEASE]
