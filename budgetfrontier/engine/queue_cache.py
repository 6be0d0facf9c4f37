"""The records of queues: a bounded cache over the tables, written back once a commit."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import Any

from budgetfrontier import rules
from budgetfrontier.model import QueueRecord
from budgetfrontier.rules import READY
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import LONGEST_SHOWN, Counters, decode_queue, encode, shorten

CACHE = 48 << 10
"""Records kept in memory at the most, about 700 bytes each."""


class QueueCache:
    """All queues by id and by key. O(1) for one in the cache, else one LMDB look-up.

    A record that was changed must be in `dirty`. Records are never dropped within an operation: who holds one may
    change it.
    """

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self.cache: dict[int, QueueRecord] = {}
        self.dirty: set[int] = set()
        self.ids: dict[str, int] = {}
        self.ahead = False
        """Whether records were written since the last commit: none is dirty any more, but something has changed."""

    def get(self, queue_id: int) -> QueueRecord:
        """The record of an id that exists."""
        queue = self.cache.get(queue_id)
        if queue is None:
            value = self._env.txn.get(keys.u32.pack(queue_id), db=self._env.db[keys.QUEUES])
            if value is None:
                raise Damage(f"queue {queue_id} has no record")
            queue = decode_queue(value)
            if queue.id != queue_id or not 0 <= queue.wake_time < inf:  # moving another one would turn round for ever
                raise Damage(f"the record of queue {queue_id} is that of {queue.id}, or wakes at {queue.wake_time}")
            self.cache[queue_id] = queue
        return queue

    def find(self, name: str) -> QueueRecord | None:
        """The record of a queue key, None if there is no such queue."""
        queue_id = self.ids.get(name)
        if queue_id is None:
            key = rules.queue_key_bytes(name)
            if key is None:
                return None
            found = self._env.txn.get(key, db=self._env.db[keys.QUEUE_IDS])
            if found is None:
                return None
            queue_id = self.ids[name] = keys.u32.unpack(found)[0]
        return self.get(queue_id)

    def find_or_create(self, name: str) -> QueueRecord:
        """The record of a queue key; a new queue is EXHAUSTED until a URI is placed on it."""
        queue = self.find(name)
        if queue is not None:
            return queue
        self._counters.queue_id += 1
        self._counters.queues += 1
        queue = QueueRecord(name, self._counters.queue_id)
        self.cache[queue.id] = queue
        self.ids[name] = queue.id
        self.dirty.add(queue.id)
        self._env.txn.put(name.encode(), keys.u32.pack(queue.id), db=self._env.db[keys.QUEUE_IDS])
        return queue

    def flush(self) -> None:
        """Write what changed, the rows of the ring included: each once a commit, however often it turned."""
        txn, queues, active = self._env.txn, self._env.db[keys.QUEUES], self._env.db[keys.ACTIVE]
        cache, pack, pack_position = self.cache, keys.u32.pack, keys.u64.pack
        arrived = []
        for queue_id in sorted(self.dirty):
            queue = cache[queue_id]
            row = queue.position if queue.state is READY else 0
            if row != queue.row:
                if queue.row:
                    txn.delete(pack_position(queue.row), db=active)
                if row:
                    arrived.append((pack_position(row), pack(queue_id)))
                queue.row = row
            if queue.last_leased.startswith("http"):  # leased since it was last written
                queue.last_leased = shorten(queue.last_leased, queue.queue)[:LONGEST_SHOWN]
            txn.put(pack(queue_id), encode(queue), db=queues)
        arrived.sort()
        for position, value in arrived:
            txn.put(position, value, db=active)
        self.dirty.clear()

    def trim(self) -> None:
        """Keep the caches bounded; what is dirty is written first.

        Every operation that looks at queues ends with this, and so does each turn of a loop that may look at many. Call
        it only where nobody holds a record that may still change.
        """
        if len(self.cache) > CACHE:
            self.ahead |= bool(self.dirty)
            self.flush()
            _drop_oldest(self.cache)
        if len(self.ids) > CACHE:
            _drop_oldest(self.ids)


def _drop_oldest(cache: dict[Any, Any]) -> None:
    """Drop those that came first, until a quarter of the room is free: whatever is over was taken in at once."""
    for key in list(islice(cache, len(cache) - CACHE + CACHE // 4)):
        del cache[key]
