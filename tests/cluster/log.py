"""The log of a partition in a list, its owner, and what clients call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from budgetfrontier import Settings
from budgetfrontier.bus.interface import Received
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Claimed, Found, Message, Steered, Told
from budgetfrontier.cluster.log.partition_clock import PartitionClock
from budgetfrontier.cluster.partitions.partition import Partition, WaitingCall
from budgetfrontier.cluster.partitions.partition_copy import PartitionCopy
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.core.protocol import Ended, Method, Uris, Wanted
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment
from tests.support import START

CRAWL = "test"
PARTITIONS = 4

Sent = list[tuple[int, bytes]]
"""Entries for the logs of partitions."""
Contents = dict[str, list[tuple[bytes, bytes]]]


class Log:
    """Entries in order, each stamped with the time of the broker."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_dict({"crawl": CRAWL})
        self.entries: list[Received] = []
        self.time = START
        self.nonces = count()

    def append(self, body: entries.Body, *, crawl: str = CRAWL) -> int:
        """Append an entry; return its offset."""
        return self.append_data(entries.encode(body, crawl=crawl))

    def append_data(self, data: bytes) -> int:
        """Append an entry as it is in a log; return its offset."""
        self.entries.append(Received(0, len(self.entries), data, self.time))
        return len(self.entries) - 1

    def claim(self, worker: str = "one") -> bytes:
        """Append a claim; return its nonce."""
        nonce = b"%d" % next(self.nonces)
        self.append(Claimed(worker, nonce))
        return nonce

    def tell(self, origin: tuple[int, int], message: Message, source: int = 1) -> int:
        """Append a message of another partition."""
        return self.append(Told(source, origin, message))

    def find(self, origin: int, *urls: str, source: int = 1) -> int:
        """Append URLs found elsewhere."""
        return self.tell((origin, 0), Found(list(urls)), source)

    def steer(self, command: bytes, op: str, args: dict[str, Any], *by: str) -> int:
        """Append a command of an operator; `by` is who, why, and the command line."""
        who, reason, line = by or ("me", "", "")
        return self.append(Steered(command, Command(op, args, who, reason, line)))


class Owner:
    """A partition with its log, and the calls that its owner takes: each is answered at once.

    What it tells others goes to `on_outgoing`, and is confirmed once that returns True.
    """

    def __init__(
        self,
        folder: Path,
        log: Log,
        number: int = 0,
        on_outgoing: Callable[[Sent], bool] | None = None,
    ) -> None:
        self.log = log
        self.outgoing: list[tuple[int, Told]] = []
        self._on_outgoing = on_outgoing or self._keep
        self._ticket = 0
        copy = PartitionCopy(folder, CRAWL, number, PARTITIONS)
        copy.nonce = log.claim(folder.name)
        with closing(copy):
            epoch = copy.apply(log.entries[copy.reading.position :])
            assert epoch is not None
            place = copy.place
            copy.commit()
        clock = PartitionClock(log.time, steady=lambda: log.time - START)
        self.partition = Partition(folder, place, epoch, log.settings, clock, foreign=copy.reading.foreign)
        self.apply()

    def _keep(self, outgoing: Sent) -> bool:
        for number, data in outgoing:
            told = entries.decode(data, crawl=CRAWL)
            assert isinstance(told, Told)
            self.outgoing.append((number, told))
        return True

    def take_outgoing(self) -> list[tuple[int, Told]]:
        """Return what was told to others since the last time."""
        taken, self.outgoing = self.outgoing, []
        return taken

    def close(self) -> None:
        """Close the partition as of its last commit, as a kill does."""
        self.partition.frontier.close()

    def turn(self) -> bool:
        """Read what is new in the log, apply it, and append the changes; return whether anything happened."""
        one = self.partition
        first = one._current.position if one.wanted is None else one.wanted
        one.wanted = None
        batch = self.log.entries[first:]
        if batch:
            one.read(batch)
        changed = one.step()
        for data in changed:
            self.log.append_data(data)
        outgoing: Sent = []
        one.forwarding.send(partial(self._write, outgoing))
        if outgoing and self._on_outgoing(outgoing):
            self.confirm()
        return bool(batch or changed or outgoing or one.wanted is not None)

    def _write(self, outgoing: Sent, partition: int, data: bytes) -> int:
        outgoing.append((partition, data))
        self._ticket += 1
        return self._ticket

    def confirm(self) -> None:
        """Let all that it has told be in the others' logs."""
        self.partition.forwarding.confirm(self._ticket)

    def apply(self) -> None:
        """Apply what is new in the log."""
        while self.turn():
            pass

    def commit(self) -> None:
        """Apply what is new in the log, and store it."""
        self.apply()
        while not self.partition.is_settled:
            self.partition._next_commit = 0.0
            self.turn()

    def call(self, method: Method, arguments: Any) -> Any:
        """Take a call, and return its reply."""
        answers: list[tuple[Any, BaseException | None]] = []
        data = protocol.encode(arguments)
        call = WaitingCall(lambda one: one.call(method.name, data), lambda *answer: answers.append(answer), len(data))
        self.partition.add(call)
        self.apply()
        [(reply, error)] = answers
        if error is not None:
            raise error
        return protocol.decoder(method.reply)(reply)

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

    def contents(self) -> Contents:
        """Return all rows."""
        self.commit()
        return rows(self.partition.frontier._tables.env)


def copied(folder: Path, log: Log, number: int = 0) -> Contents:
    """Return the rows of a copy that has read the log and no more."""
    with closing(PartitionCopy(folder, CRAWL, number, PARTITIONS)) as copy:
        copy.apply(log.entries[copy.reading.position :])
        copy.commit()
        assert copy._env is not None
        return rows(copy._env)


def rows(env: Environment) -> Contents:
    """Return all rows as of the last commit."""
    with env.env.begin() as txn:
        return {name: [(bytes(key), bytes(value)) for key, value in txn.cursor(env.db[name])] for name in keys.TABLES}
