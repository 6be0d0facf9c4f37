"""The records of queues: a bounded cache over the tables, written back once a commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from functools import partial
from itertools import islice
from math import inf
from typing import Any

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.live_queue import LiveQueue, decode_live, encode_live
from budgetfrontier.engine.native import kernel
from budgetfrontier.rules import queue_keys
from budgetfrontier.rules.queue_states import READY
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.uri_values import LONGEST_SHOWN, shorten

Row = tuple[bytes, bytes]
"""A key and its value."""

_pack = keys.u32.pack

CACHE = 28 << 10
"""Records kept in memory at the most, about 700 bytes each."""


class QueueCache:
    """All queues by id and by key. O(1) for one in the cache, else one LMDB look-up.

    Records of `get`, `each` and `find` may be changed until the operation ends, and are written at the next commit;
    those of `look` and `look_up` must not. Only `each` drops records within an operation.
    """

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._table = env.db[keys.QUEUES]
        self._counters = counters
        records: Any = {} if kernel is None else kernel.QueueRecords()
        self.cache: dict[int, QueueRecord] = records
        """Records in memory, by id; who changes one that was found here adds its id to `dirty`."""
        self._drop_records = partial(_drop_oldest, records) if kernel is None else records.drop_oldest
        self.dirty: set[int] = set() if kernel is None else kernel.QueueIds()
        """The records to be written at the next commit, by id."""
        self.ids: dict[str, int] = {}
        """Ids in memory, by key."""
        self._ahead = False
        """Whether records were written since the last commit: none is dirty any more, but something has changed."""

    @property
    def overfull(self) -> bool:
        """Whether more records are in memory than there is room for: `trim` drops some."""
        return len(self.cache) > CACHE

    @property
    def has_changed(self) -> bool:
        """Whether any record has changed since the last commit."""
        return bool(self.dirty) or self._ahead

    def get(self, queue_id: int) -> QueueRecord:
        """Return the record of an id that exists, to be changed."""
        queue = self.cache.get(queue_id)
        if queue is None:
            queue = self.cache[queue_id] = self._read(queue_id)
        self.dirty.add(queue_id)
        return queue

    def look(self, queue_id: int) -> QueueRecord:
        """Return the record of an id that exists, only to be looked at."""
        return self.cache.get(queue_id) or self._read(queue_id)

    def each(self, ids: Iterable[int]) -> Iterator[QueueRecord]:
        """Yield the records of any number of queues, each to be changed until the next one is asked for."""
        for queue_id in ids:
            yield self.get(queue_id)
            if self.overfull:
                self.trim()

    def find(self, key: str) -> QueueRecord | None:
        """Return the record of a queue key, to be changed; None if there is no such queue."""
        queue_id = self._id(key)
        if queue_id is None:
            return None
        self.ids[key] = queue_id
        return self.get(queue_id)

    def look_up(self, key: str) -> QueueRecord | None:
        """Return the record of a queue key, only to be looked at; None if there is no such queue."""
        queue_id = self._id(key)
        return None if queue_id is None else self.look(queue_id)

    def named(self, text: str) -> str:
        """Return the key of the queue that somebody names, in any spelling of its host."""
        return queue_keys.key_named(text, self._id)

    def keys_after(self, key: str, limit: int | None) -> list[str]:
        """Return the keys that follow one, in the order of their bytes."""
        cursor = self._env.txn.cursor(self._env.db[keys.QUEUE_IDS])
        found = cursor.set_range(max(key.encode()[: queue_keys.MAX_QUEUE_KEY] + b"\0", keys.FIRST))
        return [stored.decode() for stored in islice(cursor.iternext(values=False), limit)] if found else []

    def find_or_create(self, key: str) -> QueueRecord:
        """Return the record of a legal queue key, to be changed; a new queue is EXHAUSTED until it gets a URI."""
        queue_id = self.ids.get(key)
        if queue_id is None:
            cursor, new_id = self._env.queue_ids, self._counters.queue_id + 1
            if cursor.put(key.encode(), _pack(new_id), True, False):  # one search for a queue that is new
                return self._create(key, new_id)
            queue_id = self.ids[key] = keys.u32.unpack(cursor.value())[0]
        queue = self.cache.get(queue_id)
        if queue is None:
            queue = self.get(queue_id)
            queue.queue = key  # one string for both
            return queue
        self.dirty.add(queue_id)
        return queue

    def _create(self, key: str, queue_id: int) -> QueueRecord:
        self._counters.queues += 1
        self._counters.queue_id = queue_id
        queue = self.cache[queue_id] = LiveQueue(key, queue_id)
        self.ids[key] = queue_id
        self.dirty.add(queue_id)
        return queue

    def _id(self, key: str) -> int | None:
        queue_id = self.ids.get(key)
        if queue_id is None:
            stored = queue_keys.queue_key_bytes(key)
            found = None if stored is None else self._env.txn.get(stored, db=self._env.db[keys.QUEUE_IDS])
            queue_id = None if found is None else keys.u32.unpack(found)[0]
        return queue_id

    def _read(self, queue_id: int) -> QueueRecord:
        value = self._env.txn.get(_pack(queue_id), None, self._table)
        if value is None:
            raise Damage(f"queue {queue_id} has no record")
        queue = decode_live(value)
        if queue.id != queue_id or not 0 <= queue.wake_time < inf:  # moving another queue could repeat forever
            raise Damage(f"the record of queue {queue_id} is that of {queue.id}, or wakes at {queue.wake_time}")
        return queue

    def committed(self) -> None:
        """Note that all that was written is durable."""
        self._ahead = False

    def flush(self) -> None:
        """Write changed records, and the rows of the ring: each once a commit, however often it turned."""
        txn, db = self._env.txn, self._env.db
        records, left, joined = (
            self._changed() if kernel is None else kernel.changed_records(self.cache, self.dirty, LONGEST_SHOWN)
        )
        txn.cursor(self._table).putmulti(records)
        cursor = txn.cursor(db[keys.ACTIVE])
        for row in left:
            if cursor.key() == row or cursor.set_key(row):  # the next row often follows the one deleted
                cursor.delete()
        cursor.putmulti(joined)
        self.dirty.clear()

    def _changed(self) -> tuple[list[Row], list[bytes], list[Row]]:
        """Return the records to be written, and the rows of the ring that go and come, all of them by key."""
        cache, pack_row = self.cache, keys.u64.pack
        records: list[Row] = []
        left: list[bytes] = []
        joined: list[Row] = []
        for queue_id in sorted(self.dirty):
            queue, key = cache[queue_id], _pack(queue_id)
            row = queue.position if queue.state is READY else 0
            if row != queue.row:
                if queue.row:
                    left.append(pack_row(queue.row))
                if row:
                    joined.append((pack_row(row), key))
                queue.row = row
            if queue.last_leased.startswith("http"):  # leased since it was last written
                queue.last_leased = shorten(queue.last_leased, queue.queue)[:LONGEST_SHOWN]
            records.append((key, encode_live(queue)))
        return records, sorted(left), sorted(joined)

    def trim(self) -> None:
        """Drop records until a quarter of the room is free; changed ones are written first.

        Call it only between operations, when no record in use may still change. `each` does so, too.
        """
        if self.overfull:
            self._ahead |= bool(self.dirty)
            self._env.most_queues -= len(self.dirty)  # LMDB has their pages in memory until the commit
            self.flush()
            self._drop_records(_excess(self.cache))
        if len(self.ids) > CACHE:
            _drop_oldest(self.ids, _excess(self.ids))


def _excess(cache: Sized) -> int:
    """Return how many entries are to be dropped until a quarter of the room is free: any excess was added at once."""
    return len(cache) - CACHE + CACHE // 4


def _drop_oldest(cache: dict[Any, Any], number: int) -> None:
    for key in list(islice(cache, number)):
        del cache[key]
