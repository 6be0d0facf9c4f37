"""The floor: a loop over py-lmdb that writes the same rows as our frontier, and does nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from benchmarks.rows import Row
from budgetfrontier.storage import keys

if TYPE_CHECKING:
    Cursor = lmdb.Cursor[bytes]

COMMIT_INTERVAL = 0.5  # seconds of work, as in our frontier


class Floor:
    """The tables `seen` and `pending` with the same flags as our frontier's, committed and synced as often."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.env = lmdb.open(str(path), map_size=1 << 36, max_dbs=2, meminit=False, lib_version=0)
        self.tables = {name: self.env.open_db(name.encode()) for name in (keys.SEEN, keys.PENDING)}
        self._begin()

    def _begin(self) -> None:
        self.txn = self.env.begin(write=True)
        self._seen = self.txn.cursor(self.tables[keys.SEEN])
        self._pending = self.txn.cursor(self.tables[keys.PENDING])
        self._worked = 0.0

    def commit(self) -> None:
        """Sync to disk."""
        self.txn.commit()
        self._begin()

    def tick(self, started: float) -> None:
        """Add the time since `started` to the work, and commit when it is due."""
        self._worked += time.perf_counter() - started
        if self._worked >= COMMIT_INTERVAL:
            self.commit()

    def put(self, batch: Iterable[Row]) -> int:
        """Put the rows that are new, in the order of arrival; return how many."""
        started = time.perf_counter()
        seen, pending = self._seen.put, self._pending.put
        count = 0
        for fingerprint, key, value in batch:
            if seen(fingerprint, b"", overwrite=False):
                pending(key, value)
                count += 1
        self.tick(started)
        return count

    def put_sorted(self, batch: list[Row]) -> int:
        """Put the rows that are new, each table in the order of its keys, as our frontier does; return how many."""
        started = time.perf_counter()
        seen = self._seen.put
        batch.sort(key=itemgetter(0))
        arrived = [(key, value) for fingerprint, key, value in batch if seen(fingerprint, b"", overwrite=False)]
        arrived.sort()
        self._pending.putmulti(arrived)
        self.tick(started)
        return len(arrived)

    def take(self, queue_id: int) -> bool:
        """Seek the first URI of a queue, read it and delete it. Return False if the queue is empty."""
        prefix = keys.u32.pack(queue_id)
        cursor = self._pending
        if not cursor.set_range(prefix):
            return False
        key, _ = cursor.item()
        if key[:4] != prefix:
            return False
        cursor.delete()
        return True

    def close(self) -> None:
        """Commit and close."""
        self.txn.commit()
        self.env.close()
