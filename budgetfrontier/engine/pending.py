"""The table `pending`: which URI of a queue goes out next, and every change of it.

The next URIs of a queue are read several at a time: `ReadAhead`. Deletions are gathered, and made in the order of keys
by `settle`: at each commit, and before anything else reads the table. Reading ahead avoids the front of a queue, where
records wait for their deletion; either alone gains little. The key of a URI that is out is in `taken` until its record
is deleted: one set has all keys not to hand out.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.read_ahead import ReadAhead, Walk
from budgetfrontier.engine.taken_keys import Record, TakenKeys
from budgetfrontier.engine.url_table import Arrival, New, UrlTable
from budgetfrontier.rules.queued_totals import is_queued
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.turn_order import lowest_precedence

LONGEST_RUN = 16
"""Records of a run at the most."""
MOST_READ = 32 << 20
"""Bytes of all runs in memory: beyond this, records are read one at a time. The active queues share them equally."""
USUAL = 250
"""Bytes that a record is expected to take before any was read."""
SAMPLE = 64
"""Runs that are looked at to see how many bytes a record takes."""
MOST_RUNS = 1 << 15
"""Queues that are remembered from one commit to the next, about 400 bytes each."""
MOST_REMOVED = 1 << 17
"""Records that wait for their deletion, before the deletions are made ahead of the commit: some 150 bytes each."""
MOST_SKIPPED = 64
"""Records marked as deleted that one look passes over, before they are deleted from the table."""
DROPPED = 64
"""Commits without room for runs after which all are dropped: their queues may have been RETIRED or INELIGIBLE."""

_pack, _pack_size = keys.u32.pack, keys.u32.size

_value = itemgetter(1)


class PendingTable:
    """The pending URIs, by queue and in order. O(1) each, for any number of leases, unless others overtook it."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._table = env.db[keys.PENDING]
        self._counters = counters
        self.ahead: ReadAhead = ReadAhead() if kernel is None else kernel.ReadAhead()
        self.taken: TakenKeys = TakenKeys() if kernel is None else kernel.TakenKeys()
        """The keys of the URIs that are out, and of those that are to be deleted; `settle` does so."""
        self.urls: UrlTable | None = None
        """The owner of the table of URLs, told of every record that comes and goes; None if URLs are not kept."""
        self._full = 0
        """Commits since the last drop at which there was no room for runs."""
        self._share = 1
        """Records of a run at the most, so that there is room for a run of each active queue."""
        self._share_room()

    # -- heads

    def next(self, queue_id: int) -> Record | None:
        """Return the first record of a queue that is not out, and read the ones after it with it; None if all are."""
        return self.ahead.next(queue_id) or self.read(queue_id)

    def hand_out(self, queue_id: int, key: bytes) -> None:
        """Note that the record that `next` has returned is out."""
        self.ahead.take(queue_id)
        self.taken.add(key)

    def head(self, queue_id: int) -> Record | None:
        """Return the first record of a queue that is not out, or its first, out or not, when all are."""
        found = self.ahead.next(queue_id)
        if found is not None:
            return found
        prefix, read = _pack(queue_id), self.ahead.read_upto(queue_id)
        waiting, _ = self._walk(prefix if read is None else read + b"\0", prefix, 1)
        if waiting:
            return waiting[0]
        self.delete_removed()
        cursor = self._env.pending
        return cursor.item() if cursor.set_range(prefix) and cursor.key()[:4] == prefix else None

    def read(self, queue_id: int) -> Record | None:
        """Read more records of a queue, and return the first; None if all its URIs are out."""
        cursor, walk, share, room = self.reading()
        return self.ahead.read(queue_id, cursor, self.taken, walk, share, room)

    def reading(self) -> tuple[Any, Walk, int, int]:
        """Return what `ReadAhead.read` takes beside a queue and the keys taken, for all reads of one lease."""
        if self.taken.removed >= MOST_REMOVED:
            self.delete_removed()
        return self._env.pending, self._walk, self._share, MOST_READ

    def _walk(self, start: bytes, prefix: bytes, length: int) -> tuple[list[Record], bytes]:
        """Return the next records of a queue that are not taken, and the last key that was met.

        There is one from `start` on, as far as `read` is concerned. They are in order.
        """
        taken, cursor = self.taken, self._env.pending
        found: list[Record] = []
        last, skipped = prefix, 0
        for key, value in cursor.iternext() if cursor.set_range(start) else ():
            if key[:4] != prefix:
                break
            if key not in taken:
                found.append((key, value))
            else:
                skipped += 1
                if skipped == MOST_SKIPPED and self.taken.removed:
                    self.delete_removed()
                    return self._walk(start, prefix, length)
            last = key
            if len(found) == length:
                break
        return found, last

    def lowest_precedence(self, queue_id: int) -> int | None:
        """Return the lowest precedence of the URIs of a queue, out or not; None if there are none."""
        self.delete_removed()
        return lowest_precedence(self._env.pending, queue_id)

    def forget(self, queue_id: int) -> None:
        """Drop the run of a queue: the next look is at its front."""
        self.ahead.forget(queue_id)

    def value(self, key: bytes) -> bytes:
        """Return the record of a URI that is out. Raises Damage if there is none."""
        value = self._env.txn.get(key, db=self._table)
        if value is None:
            raise Damage(f"the URI of a lease is not pending: {key.hex()}")
        return value

    # -- changes

    def insert(self, records: Sequence[Record], admitted: list[New] | None = None, why: Arrival = Arrival.NEW) -> None:
        """Add records, given in the order of their keys. O(records), and one seek each.

        `admitted` has their URLs for the table of URLs if all are known to be new; otherwise `why` is the reason.
        """
        if len(self.ahead):
            self._end_runs(records)
        if self.taken.removed and not self.taken.isdisjoint([key for key, _ in records]):
            self.delete_removed()  # a URI comes back under its old key
        self._env.pending.putmulti(records)
        self._env.wrote(sum(map(len, map(_value, records))), len(records))
        if self.urls is None:
            return
        if admitted is None:
            self.urls.queued(records, why)
        else:
            self.urls.admitted(admitted)

    def _end_runs(self, records: Sequence[Record]) -> None:
        """Drop the runs that records are put into, or before."""
        prefix = b""
        for key, _ in records:
            if key[:4] != prefix:  # the first of its queue
                prefix = key[:4]
                self._put(keys.u32.unpack(prefix)[0], key)

    def _put(self, queue_id: int, key: bytes) -> None:
        """Drop the run of a queue if a record is put into it, or before it."""
        read = self.ahead.read_upto(queue_id)
        if read is not None and key <= read:
            self.ahead.forget(queue_id)

    def move(self, queue_id: int, key: bytes, to: bytes) -> None:
        """Give a record that waits another place in its queue. Raises Damage if there is none."""
        self.forget(queue_id)
        value = self._env.txn.pop(key, db=self._table)
        if value is None:
            raise Damage(f"a URI that waits is not pending: {key.hex()}")
        self._env.txn.put(to, value, db=self._table)
        self._env.wrote(len(value))
        if self.urls is not None:
            self.urls.queued([(to, value)], Arrival.MOVED)

    def transfer(self, queue: QueueRecord, key: bytes, to: QueueRecord, value: bytes) -> None:
        """Move a record that waits to another queue, under its rank and with the value that it has there.

        The other queue counts it when it arrives there.
        """
        if self.urls is not None:
            self.urls.leaving(key)
        self.delete(queue, key)
        self.insert([(_pack(to.id) + key[_pack_size:], value)], why=Arrival.MOVED)

    def put_back(self, queue_id: int, key: bytes, value: bytes | None = None) -> None:
        """Give back a record that was out, with another value if one is given."""
        self.taken.discard(key)
        if value is not None:
            self._env.txn.put(key, value, db=self._table)
            self._env.wrote(len(value))
        read = self.ahead.read_upto(queue_id)
        if read is not None and key <= read:
            self.ahead.give_back(queue_id, key, self.value(key) if value is None else value, MOST_READ)

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record that is out from its queue."""
        self.taken.remove(key)
        queue.queued -= 1
        self._counters.queued -= is_queued(queue.state)

    def delete(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record that waits from its queue."""
        self.forget(queue.id)
        self.taken.add(key)
        self.remove(queue, key)

    # -- durability

    def settle(self) -> None:
        """Bring the table up to date, before a commit and before anything else reads it; memory stays bounded."""
        self.delete_removed()
        if self.urls is not None:
            self.urls.settle()
        if len(self.ahead) > MOST_RUNS:
            self.ahead.forget_used_up()
        if self.ahead.size >= MOST_READ:
            self._full += 1
        if len(self.ahead) > MOST_RUNS or self._full == DROPPED:
            self.ahead.clear()
            self._full = 0
        self._share_room()

    def _share_room(self) -> None:
        """Give each active queue its share of the room for runs, by the average size of some records."""
        counters = self._counters
        active = counters.ready + counters.in_process + counters.snoozed
        records, size = self.ahead.sample(SAMPLE)
        records, size = records + 1, size + USUAL
        self._share = min(max(MOST_READ * records // (max(active, 1) * size), 1), LONGEST_RUN)

    def delete_removed(self) -> None:
        """Delete removed records from the table."""
        if self.taken.removed:
            left = self.taken.delete_removed(self._env.pending, keeps=self.urls is not None)
            if self.urls is not None:
                self.urls.left(left)
