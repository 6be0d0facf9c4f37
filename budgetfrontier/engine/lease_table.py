"""Leases: which URIs are out, until when, and which of the leases have to be on disk.

A lease is only a mark: its URI stays in its queue. It is written only if it is still out at a commit, so that most are
never written; a crash then needs no repair beyond counting a delivery. `engine.lease_expiry` ends leases that
expire or were lost with their process; `Guard.operate_on` raises LeaseExpired for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from math import inf
from secrets import randbits

from msgspec.structs import force_setattr

from budgetfrontier.core.model import Lease, StoredLease
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.rotation import NEVER
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters, LeaseRow, decode_lease


class Leases:
    """The leases that are out, by id, oldest first. Memory grows with them, not with queues."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.out: dict[int, Lease] = {} if kernel is None else kernel.LeasesOut()
        self.next_expiry = NEVER
        """A lower bound of their deadlines."""
        self.next_id = self._first_id = self._given = 0
        self._partition: int | None = None
        self._written: dict[int, float] = {}  # those on disk, each with the time when it was handed out
        self.calls: list[tuple[int, float]] = []
        """The first id of each call that has leased something since the last commit, and its time."""

    @property
    def given_out(self) -> int:
        """The number of leases that this run has given."""
        return self._given + self.next_id - self._first_id

    def start(self, counters: Counters, partition: int | None = None) -> None:
        """Begin the epoch of this run, with ids that no other run gives out; it is to be committed before any of them.

        They begin at random in the epoch, so that no lease of another frontier, or of this one's copy, is this run's.
        Those of a `partition` have its number, so that they are no other partition's.
        """
        counters.epoch += 1
        first = (counters.epoch << keys.EPOCH_SHIFT) + 1
        if partition is None:
            first += randbits(keys.RANDOM_BITS)
        else:
            first += (partition << keys.PARTITION_SHIFT) + randbits(keys.PARTITION_RANDOM_BITS)
        self._given, self._partition = self.given_out, partition
        self.next_id = self._first_id = first

    def go_on_numbering(self, counters: Counters) -> bool:
        """Begin another epoch if this one may not have enough ids until this is called again; return whether it did."""
        last = (self._first_id >> keys.PARTITION_SHIFT) + 1 << keys.PARTITION_SHIFT
        if self._partition is None or self.next_id < last - keys.PARTITION_RESERVE:
            return False
        self.start(counters, self._partition)
        return True

    def stored(self) -> Iterator[tuple[int, LeaseRow]]:
        """Yield the leases that an earlier run left, by id."""
        cursor = self._env.txn.cursor(self._env.db[keys.LEASES])
        cursor.first()
        for key, value in cursor.iternext():
            if key != keys.SENTINEL:
                yield keys.u64.unpack(key)[0], decode_lease(value)

    def keep(self, lease: StoredLease) -> None:
        """Register a lease of an earlier run."""
        self.out[lease.id] = lease
        self._written[lease.id] = lease.began
        self.next_expiry = min(self.next_expiry, lease.expires)

    def add(self, lease: Lease, now: float) -> None:
        """Note a lease that goes out now; its id is `next_id`."""
        if not self.calls or self.calls[-1][1] != now:
            self.calls.append((lease.id, now))
        self.out[lease.id] = lease
        self.next_id += 1
        if lease.expires < self.next_expiry:
            self.next_expiry = lease.expires

    def due(self, now: float, most: int) -> list[Lease]:
        """Return at most `most` of the leases past their deadlines, by id; the caller ends them.

        O(leases out), but O(1) before the earliest can be due. As long as there are more, `next_expiry` is past.
        """
        if now < self.next_expiry:
            return []
        found = [lease for lease in map(self.out.__getitem__, sorted(self.out)) if lease.expires <= now]
        others = found[most:] or [lease for lease in self.out.values() if lease.expires > now]
        self.next_expiry = min((lease.expires for lease in others), default=NEVER)
        return found[:most]

    def in_time(self, lease_id: int, now: float) -> Lease | None:
        """Return a lease that is out and before its deadline, else None. O(1)."""
        lease = self.out.get(lease_id)
        return lease if lease is not None and now < lease.expires else None

    def first_expiry(self) -> float:
        """Return the earliest deadline, NEVER if nothing is out. O(leases out)."""
        return min((lease.expires for lease in self.out.values()), default=NEVER)

    def began(self, lease_id: int, now: float) -> float:
        """Return when a lease was handed out that was out until now. O(log n) calls since the last commit."""
        written = self._written.get(lease_id)
        if written is not None:
            return written
        place = bisect_right(self.calls, (lease_id, inf)) - 1
        return self.calls[place][1] if place >= 0 else now

    def renewed(self, lease: Lease, expires: float) -> None:
        """Set another deadline."""
        force_setattr(lease, "expires", expires)
        self.next_expiry = min(self.next_expiry, expires)
        if lease.id in self._written:
            self._write(lease, self._written[lease.id])

    def follow_clock(self, ahead: float) -> None:
        """Bring the times of an earlier run's leases back by `ahead` seconds, the lead of its clock."""
        for lease in self.out.values():
            self._written[lease.id] -= ahead
            self.renewed(lease, lease.expires - ahead)

    def landed(self, lease: Lease) -> None:
        """Note that the download of a lease is over."""
        force_setattr(lease, "landed", True)
        self.out[lease.id] = lease  # the kernel has read it as it was
        if lease.id in self._written:
            self._write(lease, self._written[lease.id])

    def _write(self, lease: Lease, began: float) -> None:
        self._env.txn.put(*_row(lease, began), db=self._env.db[keys.LEASES])

    def flush(self) -> None:
        """Write the leases that are out, remove ended ones."""
        out, before = set(self.out), self._written
        if out != before.keys():
            for lease_id in sorted(before.keys() - out):
                self._env.txn.delete(keys.u64.pack(lease_id), db=self._env.db[keys.LEASES])
            began, rows, calls, when = {}, list[tuple[bytes, bytes]](), deque(self.calls), 0.0
            for lease_id in sorted(out - before.keys()):
                while calls and calls[0][0] <= lease_id:
                    _, when = calls.popleft()
                began[lease_id] = when
                rows.append(_row(self.out[lease_id], when))
            self._env.txn.cursor(self._env.db[keys.LEASES]).putmulti(rows)
            self._written = {lease_id: before[lease_id] for lease_id in before.keys() & out} | began
        self.calls.clear()


def _row(lease: Lease, began: float) -> tuple[bytes, bytes]:
    row = LeaseRow(lease.queue_id, lease.key, lease.expires, lease.landed, began)
    return keys.u64.pack(lease.id), encode(row)
