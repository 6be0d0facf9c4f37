"""What goes out next: the first URI of a queue that is not out.

It is one seek, to the front of the queue, if nothing of it is out. If thousands are, those need not be walked over:
everything before the last that went out is out or gone, until something is put there or given back. What is behind it
may be out as well, where another has overtaken it. Whether a record is out only the leases say: one that went out last,
was set aside and came back has its old key, and waits again.

Reading several at a time was tried: records that wait as Python objects cost more than the seeks that they save.
"""

from __future__ import annotations

from budgetfrontier.engine.leases import Leases
from budgetfrontier.store import keys
from budgetfrontier.store.environment import Environment

MOST = 1 << 15  # queues remembered, about 150 bytes each

Record = tuple[bytes, bytes]


class PendingTable:
    """The fronts of the queues. O(1) a URI, whatever is out, but for those that others have overtaken."""

    def __init__(self, env: Environment, leases: Leases) -> None:
        self._env = env
        self._out = leases.keys
        self.last: dict[int, bytes] = {}
        """Of queues that may have more than one URI out: the key of the last that went out. Nothing waits before it."""

    def next(self, queue_id: int) -> Record | None:
        """The first record of a queue that is not out; None if all are."""
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

    def first(self, queue_id: int) -> Record | None:
        """The first record of a queue that is not out, or its first, out or not, when all are."""
        record = self.next(queue_id)
        if record is None:
            cursor, prefix = self._env.pending, keys.u32.pack(queue_id)
            if cursor.set_range(prefix) and cursor.key()[:4] == prefix:
                record = cursor.item()
        return record

    def went_out(self, queue_id: int, key: bytes) -> None:
        """The first record that was not out went out, and another may follow it."""
        if len(self.last) >= MOST:
            self.last.clear()
        self.last[queue_id] = key

    def arrived(self, queue_id: int, key: bytes) -> None:
        """A record was put into the queue, the first of its batch."""
        if key < self.last.get(queue_id, b""):
            del self.last[queue_id]

    def forget(self, queue_id: int) -> None:
        """A record that was out was given back."""
        self.last.pop(queue_id, None)
