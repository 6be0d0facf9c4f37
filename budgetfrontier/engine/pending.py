"""The table `pending`: which URI of a queue goes out next, and every change of it.

The next URI of a queue is the first of its records that is not out: one seek, to the front of the queue, if nothing of
it is out. If thousands are, those need not be walked over: everything before the last that went out is out or gone,
until a record is put there or back. What is behind it may be out as well, where another has overtaken it. Whether a
record is out only the leases say: one that went out last, was set aside and came back has its old key, and waits again.

Reading several at a time was tried: records that wait as Python objects cost more than the seeks that they save.
"""

from __future__ import annotations

from budgetfrontier.engine.leases import Leases
from budgetfrontier.model import QueueRecord
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import Counters

MOST = 1 << 15  # queues remembered, about 150 bytes each

Record = tuple[bytes, bytes]


class PendingTable:
    """The pending URIs, by queue and in order. O(1) each, whatever is out, but for those that others have overtaken."""

    def __init__(self, env: Environment, counters: Counters, leases: Leases) -> None:
        self._env = env
        self._table = env.db[keys.PENDING]
        self._counters = counters
        self._out = leases.keys
        self.last: dict[int, bytes] = {}
        """Of queues that may have more than one URI out: the key of the last that went out. Nothing waits before it."""

    def __repr__(self) -> str:
        return f"<PendingTable {self._counters.queued} queued, {len(self.last)} queues with a last key>"

    def head(self, queue_id: int) -> Record | None:
        """Return the first record of a queue that is not out, or its first, out or not, when all are."""
        record = self._first_waiting(queue_id)
        if record is None:
            cursor, prefix = self._env.pending, keys.u32.pack(queue_id)
            if cursor.set_range(prefix) and cursor.key()[:4] == prefix:
                record = cursor.item()
        return record

    def _first_waiting(self, queue_id: int) -> Record | None:
        cursor, prefix, last = self._env.pending, keys.u32.pack(queue_id), self.last.get(queue_id)
        found = cursor.set_range(last or prefix)
        while found:
            record = cursor.item()
            if record[0][:4] != prefix:
                return None
            if record[0] not in self._out:
                return record
            found = cursor.next()
        return None

    def value(self, key: bytes) -> bytes:
        """Return the record of a URI that is out. Raises Damage if there is none."""
        value = self._env.txn.get(key, db=self._table)
        if value is None:
            raise Damage(f"the URI of a lease is not pending: {key.hex()}")
        return value

    def went_out(self, queue_id: int, key: bytes) -> None:
        """Note that the head of a queue went out, and that another may follow it."""
        self.last[queue_id] = key

    def insert(self, records: list[Record]) -> None:
        """Add records, which are in the order of their keys. O(records), and one seek each."""
        if self.last:
            self._forget_overtaken(records)
        self._env.pending.putmulti(records)
        self._env.wrote(sum(map(_size, records)), len(records))

    def _forget_overtaken(self, records: list[Record]) -> None:
        last, prefix = self.last, b""
        for key, _ in records:
            if key[:4] != prefix:  # the first of its queue
                prefix = key[:4]
                queue_id = keys.u32.unpack(prefix)[0]
                if key < last.get(queue_id, b""):
                    del last[queue_id]

    def put_back(self, queue_id: int, key: bytes, value: bytes | None = None) -> None:
        """Give back a record that was out, with another value if one is given."""
        self.last.pop(queue_id, None)
        if value is not None:
            self._env.txn.put(key, value, db=self._table)

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record out of its queue."""
        self._env.txn.delete(key, b"", self._table)
        queue.queued -= 1
        if queue.state is not RETIRED:
            self._counters.queued -= 1

    def settle(self) -> None:
        """Bring the table up to date before a commit: every change is written already; memory stays bounded."""
        if len(self.last) > MOST:
            self.last.clear()


def _size(record: Record) -> int:
    return len(record[1])
