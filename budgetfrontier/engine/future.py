"""The table of URIs scheduled for later: those with a time before which they are not queued, and delayed retries.

Admission puts URIs with `not_before` here, and `engine.finish` retries that wait by themselves
(`rules.uri_outcomes.fate`); `engine.returning_uris` queues them when they are due.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.engine.rotation import NEVER
from budgetfrontier.engine.url_table import Arrival, UrlTable
from budgetfrontier.rules import queued_totals
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.kept_places import place_in_future
from budgetfrontier.storage.records import Counters, FutureRow, decode_future
from budgetfrontier.storage.uri_values import tries


class FutureTable:
    """The table of URIs scheduled for later, by due time; counted as *future*, not as queued."""

    def __init__(self, env: Environment, counters: Counters, queues: QueueCache) -> None:
        self._env = env
        self._counters = counters
        self._queues = queues
        self.next_due = self.first_due()
        """A lower bound of the due times."""
        self.held = False
        """Whether no URI leaves the table, because a command is reading through it."""
        self.urls: UrlTable | None = None
        """The owner of the table of URLs, as in `PendingTable`."""

    def first_due(self) -> float:
        """Return the earliest due time, NEVER if nothing is scheduled."""
        cursor = self._env.txn.cursor(self._env.db[keys.FUTURE])
        return float(keys.due.unpack(cursor.key())[0]) if cursor.set_range(keys.FIRST) else NEVER

    def add(self, queue: QueueRecord, rank: bytes, value: bytes, when: float, *, leaving: bytes = b"") -> None:
        """Schedule a URI of `queue` for later, at `when`; `leaving` is the key of its pending record, if it has one."""
        self._counters.ordinal = ordinal = self._counters.ordinal + 1
        key = keys.due.pack(max(when, 0.0), ordinal)
        self._env.wrote(len(value))
        self._env.txn.put(key, encode(FutureRow(queue.id, rank, value)), db=self._env.db[keys.FUTURE])
        self._count(queue, 1)
        if self.urls is not None:
            why = Arrival.MOVED if leaving else Arrival.NEW
            self.urls.postponed(queue.id, key, value, why, leaving=leaving)
        self.next_due = min(self.next_due, when)

    def put_back(self, queue: QueueRecord, key: bytes, row: FutureRow) -> None:
        """Schedule a removed URI again, under its old key."""
        self._env.wrote(len(row.value))
        self._env.txn.put(key, encode(row), db=self._env.db[keys.FUTURE])
        self._count(queue, 1)
        if self.urls is not None:
            self.urls.postponed(queue.id, key, row.value, Arrival.RETURNED)
        self.next_due = min(self.next_due, keys.due.unpack(key)[0])

    def value(self, key: bytes) -> bytes:
        """Return the record of the URI that waits under `key`. Raises Damage if there is none."""
        return self._row(key).value

    def rank(self, key: bytes) -> bytes:
        """Return the rank that the URI under `key` will have in its queue. Raises Damage if there is none."""
        return self._row(key).rank

    def replace_rank(self, key: bytes, rank: bytes) -> None:
        """Give the URI that waits under `key` another rank."""
        row = self._row(key)
        row.rank = rank
        value = encode(row)
        self._env.wrote(len(value))
        self._env.txn.put(key, value, db=self._env.db[keys.FUTURE])

    def _row(self, key: bytes) -> FutureRow:
        value = self._env.txn.get(key, db=self._env.db[keys.FUTURE])
        if value is None:
            raise Damage(f"nothing is scheduled for later under {key.hex()}")
        return decode_future(value)

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Remove the URI under `key`."""
        value = self._take(queue, key)
        if self.urls is not None and value is not None:
            self.urls.left([(place_in_future(queue.id, key), decode_future(value).value)])

    def _take(self, queue: QueueRecord, key: bytes) -> bytes | None:
        self._count(queue, -1)
        return self._env.txn.pop(key, db=self._env.db[keys.FUTURE])

    def bring_forward(self, seconds: float) -> None:
        """Make every retry due earlier by so many seconds; URIs with a `not_before` stay. O(URIs scheduled)."""
        txn, db = self._env.txn, self._env.db[keys.FUTURE]
        cursor = txn.cursor(db)
        cursor.first()
        retries = [key for key, value in cursor.iternext() if key != keys.SENTINEL and _is_retry(value)]
        for key in retries:
            due, ordinal = keys.due.unpack(key)
            value = txn.pop(key, db=db) or b""
            after = keys.due.pack(max(due - seconds, 0.0), ordinal)
            txn.put(after, value, db=db)
            if self.urls is not None:
                row = decode_future(value)
                self.urls.postponed(row.queue, after, row.value, Arrival.MOVED)
        self.next_due = self.first_due()

    def take_due(self, now: float, limit: int) -> list[FutureRow]:
        """Take out the first that are due, which are placed on their queues at once."""
        found = list(self._due(now, limit))
        rows = [decode_future(value) for _, value in found]
        for (key, _), row in zip(found, rows, strict=True):
            self._take(self._queues.get(row.queue), key)
        self.next_due = self.first_due()
        return rows

    def due(self, now: float, limit: int) -> Iterator[FutureRow]:
        """Yield the first that are due, in the order in which `take_due` takes them."""
        return (decode_future(value) for _, value in self._due(now, limit))

    def _due(self, now: float, limit: int) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._env.txn.cursor(self._env.db[keys.FUTURE])
        if cursor.set_range(keys.FIRST):
            for key, value in islice(cursor, limit):
                if keys.due.unpack(key)[0] > now:
                    break
                yield key, value

    def _count(self, queue: QueueRecord, change: int) -> None:
        queue.future += change
        self._counters.future += change
        if not queued_totals.is_queued(queue.state):
            self._counters.future_retired += change


def _is_retry(value: bytes) -> bool:
    return tries(decode_future(value).value)[0] > 0
