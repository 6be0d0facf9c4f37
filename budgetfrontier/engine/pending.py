"""The table `pending`: which URI of a queue goes out next, and every change of it.

The next URIs of a queue are read several at a time, in one seek, and kept as a *run*. Everything up to the last key
read is in the run, out, or removed. So a record put before that key ends the run, unless it is given back and is the
first of all; the next read is at the front of the queue then. Deletions are gathered, and made in the order of keys by
`settle`: at each commit, and before anything else reads the table. Runs avoid reading the front of a queue, where
records wait for their deletion; either alone gains little. The key of a URI that is out is in `taken` until its record
is deleted: one set has all keys not to hand out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from operator import itemgetter

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.url_table import Arrival, New, UrlTable
from budgetfrontier.rules.queue_states import INELIGIBLE, RETIRED
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.turn_order import lowest_precedence

FIRST_RUN = 4
"""Records of the first run of a queue; each that is used up is followed by one twice as long."""
LONGEST_RUN = 16
"""Records of a run at the most."""
MOST_OF_RUN = 1 << 16
"""Bytes of the records of a run, unless it has only one."""
MOST_READ = 32 << 20
"""Bytes of all runs in memory: beyond this, records are read one at a time. The active queues share them equally."""
OVERHEAD = 100
"""Bytes that a record takes in memory beside its key and value."""
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

Record = tuple[bytes, bytes]
Run = list[bytes]
"""Keys and values of records in reverse, each value before its key: flat, as the garbage collector visits tuples."""


class PendingTable:
    """The pending URIs, by queue and in order. O(1) each, for any number of leases, unless others overtook it.

    `lease` uses `runs` directly: the last key and value of a run are the head of its queue, and are taken with `pop`;
    the key is then added to `taken`.
    """

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._table = env.db[keys.PENDING]
        self._counters = counters
        self.runs: dict[int, Run] = {}
        """By queue: the records that go out next, in reverse."""
        self._read: dict[int, tuple[bytes, int, int]] = {}
        """By queue that has a run: the last key that was read for it, and the records and bytes of the run as read."""
        self._size = 0
        """The sum of these bytes."""
        self.taken: set[bytes] = set()
        """The keys of the URIs that are out, and of those that are to be deleted."""
        self.removed: list[bytes] = []
        """The keys that are to be deleted; `settle` does so."""
        self.urls: UrlTable | None = None
        """The owner of the table of URLs, told of every record that comes and goes; None if URLs are not kept."""
        self._full = 0
        """Commits since the last drop at which there was no room for runs."""
        self._share = 1
        """Records of a run at the most, so that there is room for a run of each active queue."""
        self._share_room()

    # -- heads

    def head(self, queue_id: int) -> Record | None:
        """Return the first record of a queue that is not out, or its first, out or not, when all are."""
        run = self.runs.get(queue_id)
        if run:
            return run[-1], run[-2]
        prefix = keys.u32.pack(queue_id)
        found, _ = self._walk(self._next_key(queue_id, prefix), prefix, 1)
        if found:
            return found[0], found[1]
        self.delete_removed()
        cursor = self._env.pending
        return cursor.item() if cursor.set_range(prefix) and cursor.key()[:4] == prefix else None

    def read(self, queue_id: int) -> Run:
        """Read the next run of a queue, after one that is used up or missing; it is empty if all URIs are out.

        With room for a record of each active queue at the most, the first of a queue is not kept as a run: by its next
        turn it will be deleted. If it is not, or others are out, the queue has runs of one record from then on.
        """
        if len(self.removed) >= MOST_REMOVED:
            self.delete_removed()
        prefix, before, cursor = _pack(queue_id), self._read.get(queue_id), self._env.pending
        if before is None:
            if self._share == 1 and cursor.set_range(prefix):
                key, value = cursor.item()
                if key not in self.taken and key[:4] == prefix:
                    return [value, key]
            start = last = prefix
            length = FIRST_RUN
        else:
            last, length, size = before
            start = last + b"\0"
            length = length * 2 or 1
            self._size -= size
        if length > self._share:
            length = self._share
        if self._size >= MOST_READ:
            length = 1
        found = list(chain.from_iterable(islice(cursor.iternext(), length))) if cursor.set_range(start) else []
        while found and found[-2][:4] != prefix:
            del found[-2:]
        met = found[::2]
        if not self.taken.isdisjoint(met):
            found, last = self._walk(start, prefix, length)
        elif met:
            last = met[-1]
        size = sum(map(len, found[1::2])) + len(found) // 2 * keys.pending.size
        if size > MOST_OF_RUN and len(found) > 2:
            del found[2:]
            last, size = found[0], len(found[1])
        found.reverse()
        count = len(found) // 2
        size += count * OVERHEAD
        self._size += size
        self.runs[queue_id] = found
        self._read[queue_id] = last, count, size
        return found

    def _next_key(self, queue_id: int, prefix: bytes) -> bytes:
        """Return the key from which on the records of a queue are unknown."""
        read = self._read.get(queue_id)
        return prefix if read is None else read[0] + b"\0"

    def _walk(self, start: bytes, prefix: bytes, length: int) -> tuple[list[bytes], bytes]:
        """Return the next records of a queue that are not taken, and the last key that was met.

        There is one from `start` on, as far as `read` is concerned. They are in order, each key before its value.
        """
        taken, cursor = self.taken, self._env.pending
        run: list[bytes] = []
        last, skipped = prefix, 0
        for key, value in cursor.iternext() if cursor.set_range(start) else ():
            if key[:4] != prefix:
                break
            if key not in taken:
                run += key, value
            else:
                skipped += 1
                if skipped == MOST_SKIPPED and self.removed:
                    self.delete_removed()
                    return self._walk(start, prefix, length)
            last = key
            if len(run) == 2 * length:
                break
        return run, last

    def lowest_precedence(self, queue_id: int) -> int | None:
        """Return the lowest precedence of the URIs of a queue, out or not; None if there are none."""
        self.delete_removed()
        return lowest_precedence(self._env.pending, queue_id)

    def forget(self, queue_id: int) -> None:
        """Drop the run of a queue: the next look is at its front."""
        if self.runs.pop(queue_id, None) is not None:
            self._size -= self._read.pop(queue_id)[2]

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
        if self.runs:
            self._end_runs(records)
        if self.removed and not self.taken.isdisjoint([key for key, _ in records]):
            self.delete_removed()  # a URI comes back under its old key
        self._env.pending.putmulti(records)
        self._env.wrote(sum(map(len, map(_value, records))), len(records))
        if self.urls is None:
            return
        if admitted is None:
            self.urls.queued(records, why)
        else:
            self.urls.admitted(admitted)

    def insert_one(self, queue_id: int, key: bytes, value: bytes, fingerprint: bytes, short: str) -> None:
        """Add a record that was never there before, of a URL that is new."""
        read = self._read.get(queue_id)
        if read is not None and key <= read[0]:
            self.forget(queue_id)
        self._env.pending.put(key, value)
        self._env.wrote(len(value), 1)
        if self.urls is not None:
            self.urls.admitted([(fingerprint, queue_id, short, key)])

    def _end_runs(self, records: Sequence[Record]) -> None:
        """Drop the runs that records are put into, or before."""
        read, prefix = self._read, b""
        for key, _ in records:
            if key[:4] != prefix:  # the first of its queue
                prefix = key[:4]
                queue_id = keys.u32.unpack(prefix)[0]
                if queue_id in read and key <= read[queue_id][0]:
                    self.forget(queue_id)

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
        run = self.runs.get(queue_id)
        if run is None:
            return
        last, count, size = self._read[queue_id]
        if key > last:
            return
        if value is None:
            value = self.value(key)
        more = len(key) + len(value) + OVERHEAD
        size += more  # as if it had been read for this run: it may be of one before
        if (run and run[-1] <= key) or size > MOST_OF_RUN or self._size >= MOST_READ:
            self.forget(queue_id)  # it is behind one to go out before it, or there is no room for it
            return
        run += value, key
        self._read[queue_id] = last, count, size
        self._size += more

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Take a record that is out from its queue."""
        self.removed.append(key)
        queue.queued -= 1
        if queue.state is not RETIRED and queue.state is not INELIGIBLE:  # copies `queued_totals.is_queued`
            self._counters.queued -= 1

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
        if len(self.runs) > MOST_RUNS:
            for queue_id in [queue_id for queue_id, run in self.runs.items() if not run]:
                self.forget(queue_id)
        if self._size >= MOST_READ:
            self._full += 1
        if len(self.runs) > MOST_RUNS or self._full == DROPPED:
            self.runs.clear()
            self._read.clear()
            self._size = self._full = 0
        self._share_room()

    def _share_room(self) -> None:
        """Give each active queue its share of the room for runs, by the average size of some records."""
        counters = self._counters
        active = counters.ready + counters.in_process + counters.snoozed
        records, size = 1, USUAL
        for _, count, bytes_ in islice(self._read.values(), SAMPLE):
            records += count
            size += bytes_
        self._share = min(max(MOST_READ * records // (max(active, 1) * size), 1), LONGEST_RUN)

    def delete_removed(self) -> None:
        """Delete removed records in the order of keys: the next key often follows the one deleted."""
        if not self.removed:
            return
        cursor = self._env.pending
        at, seek, delete = cursor.key, cursor.set_key, cursor.delete
        self.removed.sort()
        if self.urls is None:
            for key in self.removed:
                if at() == key or seek(key):
                    delete()
        else:
            left: list[Record] = []
            for key in self.removed:
                if at() == key or seek(key):
                    left.append((key, cursor.value()))
                    delete()
            self.urls.left(left)
        self.taken.difference_update(self.removed)
        self.removed.clear()
