"""The log of a partition in a list, and what clients call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from budgetfrontier import Settings
from budgetfrontier.cluster import entries
from budgetfrontier.cluster.entries import Called, Claimed, Found, Steered
from budgetfrontier.cluster.partition import Partition
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.core.protocol import Ended, Method, Uris, Wanted
from budgetfrontier.storage import keys
from tests.support import START

CRAWL = "test"
PARTITIONS = 4
_NOT_COMPARED = {keys.META, keys.RUNS, keys.SERIES}
"""Tables in which it shows when a frontier was opened and committed."""


class Log:
    """Entries in order, each with the time of the log."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_dict({"crawl": CRAWL})
        self.entries: list[tuple[int, bytes]] = []
        self.time = START

    def append(self, body: entries.Body, *, crawl: str = CRAWL) -> int:
        """Append an entry; return its offset."""
        offset = len(self.entries)
        self.entries.append((offset, entries.encode(body, crawl=crawl, time=self.time)))
        return offset

    def claim(self, worker: str = "one") -> int:
        """Append a claim; return its epoch."""
        return self.append(Claimed(worker, worker.encode(), self.settings.to_dict()))

    def find(self, origin: int, *urls: str, source: int = 1) -> int:
        """Append URLs found elsewhere."""
        return self.append(Found(source, (origin, 0), list(urls)))

    def steer(self, command: bytes, name: str, **named: Any) -> int:
        """Append a command of an operator."""
        return self.append(Steered(command, name, [], named))


class Owner:
    """A partition with its log, and the calls that its owner takes."""

    def __init__(
        self, folder: Path, log: Log, number: int = 0, flush: Callable[[Partition], None] = lambda partition: None
    ) -> None:
        self.log = log
        self._flush = flush
        self.partition = Partition(folder, CRAWL, number, PARTITIONS)
        self.epoch = log.claim(folder.name)  # not its path: of the same log, each run has the same lease ids and jitter
        self._calls = 0
        self.apply()

    def close(self) -> None:
        """Close the partition."""
        self.partition.close()

    def apply(self) -> list[Any]:
        """Apply what is new in the log; return the results of own calls."""
        found: list[Any] = []
        while self.partition.state.position < len(self.log.entries):
            new = self.log.entries[self.partition.state.position :]
            found += self.partition.apply(new, epoch=self.epoch)
            if self.partition.is_commit_due:
                self._flush(self.partition)
                self.partition.commit()
        return found

    def call(self, method: Method, arguments: Any) -> Any:
        """Take a call, and return its reply."""
        self._calls += 1
        self.log.append(Called(self.epoch, self._calls, method.name, protocol.encode(arguments)))
        applied = self.apply()[-1]
        if applied.error is not None:
            raise applied.error
        return protocol.decoder(method.reply)(applied.reply)

    def schedule(self, *urls: str | CrawlUri) -> Any:
        """Schedule URLs."""
        return self.call(protocol.SCHEDULE_MANY, Uris(list(urls)))

    def lease(self, count: int = 1, ttl: float = 300.0) -> list[Lease]:
        """Lease URIs."""
        leases: list[Lease] = self.call(protocol.LEASE, Wanted(count, ttl))
        return leases

    def finish(self, *ended: int | Ended) -> list[int]:
        """End leases."""
        late: list[int] = self.call(protocol.FINISH_MANY, list(ended))
        return late


def contents(partition: Partition) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return all records of a partition that its log determines."""
    partition.commit()
    env = partition.frontier._tables.env
    with env.env.begin() as txn:
        return {
            name: [(bytes(key), bytes(value)) for key, value in txn.cursor(env.db[name])]
            for name in keys.TABLES
            if name not in _NOT_COMPARED
        }
