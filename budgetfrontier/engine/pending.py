"""The table `pending`: which URI of a queue goes out next, and every change of it.

The next URIs of a queue are read several at a time, in one seek, and kept as a *run*. Everything up to the last key
that was read is in the run, out, or removed. So a record that is put before that key ends the run, unless it is given
back and is the first of all; the next look is at the front of the queue then. Deletions are gathered, and made in the
order of keys by `settle`: at each commit, and before anything else reads the table. With runs nobody looks at the front
of a queue, where the records are that wait for their deletion; either alone gains little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from budgetfrontier.engine.leases import Leases
from budgetfrontier.model import QueueRecord
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import Counters

LONGEST_RUN = 16
"""Records of a run at the most."""
MOST_OF_RUN = 1 << 16
"""Bytes of the records of a run, but for its last."""
MOST_READ = 16 << 20
"""Bytes of all runs in memory: beyond this, records are read one at a time."""
OVERHEAD = 150
"""Bytes that a record takes in memory beside its key and value."""
MOST_RUNS = 1 << 15
"""Queues whose last key is remembered from one commit to the next, about 300 bytes each."""
MOST_SKIPPED = 64
"""Records that wait for their deletion and are passed over in one look, before the deletions are made."""
RECOUNTED, DROPPED = 8, 64
"""Commits without room for runs after which their bytes are counted; and all dropped, for queues may be RETIRED."""

Record = tuple[bytes, bytes]


class PendingTable:
    """The pending URIs, by queue and in order. O(1) each, whatever is out, but for those that others have overtaken.

    Who leases looks at `runs` by hand: the last record of a run is the head of its queue, and is taken with `pop`.
    """

    def __init__(self, env: Environment, counters: Counters, leases: Leases) -> None:
        self._env = env
        self._table = env.db[keys.PENDING]
        self._counters = counters
        self._out = leases.keys
        self.runs: dict[int, list[Record]] = {}
        """By queue: the records that go out next, in reverse. A queue without any more to read has an empty one."""
        self._last: dict[int, bytes] = {}
        """By queue that has a run: the last key that was read for it."""
        self.removed: set[bytes] = set()
        """Keys that are to be deleted; `settle` does so."""
        self._length = 1
        """Records of the next run: more where runs are used up, fewer where they end before."""
        self._read = 0
        """Bytes that were read into runs since they were counted: a bound of what they hold."""
        self._full = 0
        """Commits since the last drop at which there was no room for runs."""

    def __repr__(self) -> str:
        return f"<PendingTable {self._counters.queued} queued, {len(self.runs)} runs, {len(self.removed)} to delete>"

    # -- heads

    def head(self, queue_id: int) -> Record | None:
        """Return the first record of a queue that is not out, or its first, out or not, when all are."""
        run = self.runs.get(queue_id) or self.read(queue_id)
        if run:
            return run[-1]
        prefix = keys.u32.pack(queue_id)
        cursor = self._env.pending
        found = cursor.set_range(prefix)
        while found and cursor.key()[:4] == prefix:
            if cursor.key() not in self.removed:
                return cursor.item()
            found = cursor.next()
        return None

    def read(self, queue_id: int) -> list[Record]:
        """Read the next run of a queue whose run is used up, or that has none; it is empty if all of it is out."""
        prefix, last = keys.u32.pack(queue_id), self._last.get(queue_id)
        if last is None:
            start, length = prefix, self._length
        else:
            start, length = last + b"\0", min(self._length * 2, LONGEST_RUN)
            self._length = length
        if self._read >= MOST_READ:
            length = 1
        cursor = self._env.pending
        run = list(islice(cursor.iternext(), length)) if cursor.set_range(start) else []
        while run and run[-1][0][:4] != prefix:
            run.pop()
        last = run[-1][0] if run else last or prefix
        size, out, removed = 0, self._out, self.removed
        for key, value in run:
            size += len(value)
            if key in out or key in removed:
                run, last = self._walk(start, prefix, length)
                break
        if size > MOST_OF_RUN and len(run) > 1:
            del run[1:]
            self._length, last = 1, run[0][0]
        run.reverse()
        self._read += size + len(run) * OVERHEAD
        self.runs[queue_id] = run
        self._last[queue_id] = last
        return run

    def _walk(self, start: bytes, prefix: bytes, length: int) -> tuple[list[Record], bytes]:
        """Return the next records of a queue that are neither out nor removed, and the last key that was met."""
        out, removed, cursor = self._out, self.removed, self._env.pending
        run: list[Record] = []
        last, skipped = prefix, 0
        cursor.set_range(start)
        for record in cursor.iternext():
            key = record[0]
            if key[:4] != prefix:
                break
            if key in removed:
                skipped += 1
                if skipped == MOST_SKIPPED:
                    self.delete_removed()
                    return self._walk(start, prefix, length)
            elif key not in out:
                run.append(record)
            last = key
            if len(run) == length:
                break
        return run, last

    def forget(self, queue_id: int) -> None:
        """Drop the run of a queue: the next look is at its front."""
        run = self.runs.pop(queue_id, None)
        if run is not None:
            del self._last[queue_id]
            if len(run) > 1 and self._length > 1:
                self._length //= 2

    def value(self, key: bytes) -> bytes:
        """Return the record of a URI that is out. Raises Damage if there is none."""
        value = self._env.txn.get(key, db=self._table)
        if value is None:
            raise Damage(f"the URI of a lease is not pending: {key.hex()}")
        return value

    # -- changes

    def insert(self, records: Sequence[Record]) -> None:
        """Add records, which are in the order of their keys. O(records), and one seek each."""
        if self.runs:
            self._end_runs(records)
        if self.removed:  # a URI that comes back under its old key is not to be deleted after all
            self.removed.difference_update([key for key, _ in records])
        self._env.pending.putmulti(records)
        self._env.wrote(sum(map(_size, records)), len(records))

    def insert_one(self, queue_id: int, key: bytes, value: bytes) -> None:
        """Add a record that was never there before."""
        last = self._last.get(queue_id)
        if last is not None and key <= last:
            self.forget(queue_id)
        self._env.pending.put(key, value)
        self._env.wrote(len(value), 1)

    def _end_runs(self, records: Sequence[Record]) -> None:
        """Drop the runs that records are put into, or before."""
        last, prefix = self._last, b""
        for key, _ in records:
            if key[:4] != prefix:  # the first of its queue
                prefix = key[:4]
                queue_id = keys.u32.unpack(prefix)[0]
                if key <= last.get(queue_id, b""):
                    self.forget(queue_id)

    def put_back(self, queue_id: int, key: bytes, value: bytes | None = None) -> None:
        """Give back a record that was out, with another value if one is given; one that was removed stays so."""
        if key in self.removed:
            return
        if value is not None:
            self._env.txn.put(key, value, db=self._table)
        run = self.runs.get(queue_id)
        if run is None or key > self._last[queue_id]:
            return
        if run and run[-1][0] <= key:  # given back twice, or behind one that is to go out before it
            self.forget(queue_id)
        else:
            run.append((key, self.value(key) if value is None else value))

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record that is out from its queue."""
        self.removed.add(key)
        queue.queued -= 1
        if queue.state is not RETIRED:
            self._counters.queued -= 1

    def delete(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record that waits from its queue."""
        self.forget(queue.id)
        self.remove(queue, key)

    # -- durability

    def settle(self) -> None:
        """Bring the table up to date, before a commit and before anything else reads it; memory stays bounded."""
        self.delete_removed()
        if len(self.runs) > MOST_RUNS:
            self._drop(lambda run: not run)
        if self._read >= MOST_READ:
            self._full += 1
            if not self._full % DROPPED:
                self._drop(lambda run: True)
            if not self._full % RECOUNTED:
                self._read = sum(len(record[1]) + OVERHEAD for run in self.runs.values() for record in run)

    def _drop(self, which: Callable[[list[Record]], bool]) -> None:
        """Drop some of the runs, and all if too many would be left."""
        dropped = [queue_id for queue_id, run in self.runs.items() if which(run)]
        if len(self.runs) - len(dropped) > MOST_RUNS // 2:
            dropped = list(self.runs)
        for queue_id in dropped:
            del self.runs[queue_id], self._last[queue_id]

    def delete_removed(self) -> None:
        """Delete what was removed, in the order of keys: what follows the one deleted is often the next."""
        if not self.removed:
            return
        cursor = self._env.pending
        at, seek, delete = cursor.key, cursor.set_key, cursor.delete
        for key in sorted(self.removed):
            if at() == key or seek(key):
                delete()
        self.removed.clear()


def _size(record: Record) -> int:
    return len(record[1])
