"""The next URIs of queues in memory: a *run* of each queue that has had turns, read in one seek.

Everything up to the last key that was read for a queue is in its run, out, or removed. So a record that is put before
that key ends the run, unless it is given back and is the first of all; the next read is at the front of the queue then.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from budgetfrontier.engine.taken_keys import Record, TakenKeys
from budgetfrontier.storage import keys

FIRST_RUN = 4
"""Records of the first run of a queue; each that is used up is followed by one twice as long."""
MOST_OF_RUN = 1 << 16
"""Bytes of the records of a run, unless it has only one."""
OVERHEAD = 100
"""Bytes that a record takes in memory beside its key and value."""

Walk = Callable[[bytes, bytes, int], tuple[list[Record], bytes]]
"""Returns so many records of the queue with a prefix, from a key on, that are not taken, and the last key it met."""


class ReadAhead:
    """The runs of all queues. O(1) for each record, and one seek for each run."""

    def __init__(self) -> None:
        self._runs: dict[int, list[Record]] = {}  # in reverse
        self._read: dict[int, tuple[bytes, int, int]] = {}
        """By queue that has a run: the last key that was read for it, and the records and bytes of the run as read."""
        self.size = 0
        """The sum of these bytes."""

    def __len__(self) -> int:
        return len(self._runs)

    def held(self) -> dict[int, list[Record]]:
        """Return the records in memory, by queue."""
        return {queue_id: run[::-1] for queue_id, run in self._runs.items()}

    def next(self, queue_id: int) -> Record | None:
        """Return the next record of a queue, if it is in memory."""
        run = self._runs.get(queue_id)
        return run[-1] if run else None

    def take(self, queue_id: int) -> None:
        """Take the next record of a queue out of its run, if it has one."""
        if run := self._runs.get(queue_id):
            run.pop()

    def read(self, queue_id: int, cursor: Any, taken: TakenKeys, walk: Walk, share: int, room: int) -> Record | None:
        """Read the next run of a queue, after one that is used up or missing; return its first record, None if all
        URIs are out.

        A run has `share` records at the most, and one if all have `room` bytes or more. With a share of one, the first
        record of a queue is not kept as a run: by its next turn it will be deleted. If it is not, or others are out,
        the queue has runs of one record from then on.
        """
        prefix, before = keys.u32.pack(queue_id), self._read.get(queue_id)
        if before is None:
            if share == 1 and cursor.set_range(prefix):
                key, value = cursor.item()
                if key not in taken and key[:4] == prefix:
                    return key, value
            start = last = prefix
            length = FIRST_RUN
        else:
            last, length, size = before
            start = last + b"\0"
            length = length * 2 or 1
            self.size -= size
        length = min(length, share) if self.size < room else 1
        found: list[Record] = list(islice(cursor.iternext(), length)) if cursor.set_range(start) else []
        while found and found[-1][0][:4] != prefix:
            del found[-1]
        if not taken.isdisjoint([key for key, _ in found]):
            found, last = walk(start, prefix, length)
        elif found:
            last = found[-1][0]
        size = sum(len(value) for _, value in found) + len(found) * keys.pending.size
        if size > MOST_OF_RUN and len(found) > 1:
            del found[1:]
            last, size = found[0][0], len(found[0][1])
        found.reverse()
        size += len(found) * OVERHEAD
        self.size += size
        self._runs[queue_id] = found
        self._read[queue_id] = last, len(found), size
        return found[-1] if found else None

    def read_upto(self, queue_id: int) -> bytes | None:
        """Return the last key that was read for a queue; None if it has no run."""
        read = self._read.get(queue_id)
        return None if read is None else read[0]

    def give_back(self, queue_id: int, key: bytes, value: bytes, room: int) -> None:
        """Put a record that was taken before all others of a run, and drop the run where that is not its place.

        The run is dropped, too, if there is no `room` for the record.
        """
        run, (last, count, size) = self._runs[queue_id], self._read[queue_id]
        more = len(key) + len(value) + OVERHEAD
        size += more  # as if it had been read for this run: it may be of one before
        if (run and run[-1][0] <= key) or size > MOST_OF_RUN or self.size >= room:
            self.forget(queue_id)
            return
        run.append((key, value))
        self._read[queue_id] = last, count, size
        self.size += more

    def forget(self, queue_id: int) -> None:
        """Drop the run of a queue: the next look is at its front."""
        if self._runs.pop(queue_id, None) is not None:
            self.size -= self._read.pop(queue_id)[2]

    def forget_used_up(self) -> None:
        """Drop the runs without records."""
        for queue_id in [queue_id for queue_id, run in self._runs.items() if not run]:
            self.forget(queue_id)

    def clear(self) -> None:
        """Drop all runs."""
        self._runs.clear()
        self._read.clear()
        self.size = 0

    def sample(self, most: int) -> tuple[int, int]:
        """Return the records and bytes of at most so many runs, as they were read."""
        read = [(count, size) for _, count, size in islice(self._read.values(), most)]
        return sum(count for count, _ in read), sum(size for _, size in read)
