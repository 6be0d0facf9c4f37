"""The table `dead`: the dead letters, with all fields of their URIs, by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.seed_table import SeedTable
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters, DeadRow, decode_dead
from budgetfrontier.storage.uri_values import short_url

Letters = list[tuple[int, DeadRow]]
AT_ONCE = 8 << 20
"""Bytes of dead letters after which a step takes no more."""


class DeadLetterTable:
    """The dead letters. O(log n) each."""

    def __init__(self, env: Environment, counters: Counters, seeds: SeedTable) -> None:
        self._env, self._seeds = env, seeds
        self._table = env.db[keys.DEAD]
        self._counters = counters
        self.on_add: Callable[[int, DeadRow], None] | None = None
        """Called with each new dead letter and its number."""

    def add(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        """Add a URI that was taken out of its queue. A prerequisite takes the place of its last dead letter."""
        self._counters.ordinal = number = self._counters.ordinal + 1
        reason = reason.encode("utf-8", "replace").decode()  # errors of fetchers may quote bytes that are not text
        row = DeadRow(queue.id, queue.queue, key[4:], value, reason, now)
        if row.prerequisite:
            self._replace_prerequisite(queue, value, number)
            self._counters.dead_prerequisites += 1
        self._env.wrote(len(value))
        self._env.txn.put(keys.u64.pack(number), encode(row), db=self._table)
        self._seeds.moved(key[keys.DIRECTIVE], value, queue.queue, SeedFate.DEAD, now, reason)
        if self.on_add is not None:
            self.on_add(number, row)

    def _replace_prerequisite(self, queue: QueueRecord, value: bytes, number: int) -> None:
        """Take out the last dead letter of the queue's prerequisite, if this is the same one, which failed again.

        Each page that is replayed asks for its robots.txt anew: they would all stand, and be asked for, once more.
        """
        last = queue.dead_prerequisite
        for older, row in self.numbered([last], last)[0]:
            if row.queue == queue.id and short_url(row.value) == short_url(value):
                self.remove(older, row)
        queue.dead_prerequisite = number

    def put_back(self, key: bytes, value: bytes) -> None:
        """Put back a dead letter that was taken out, under its old number."""
        self._env.wrote(len(value))
        self._env.txn.put(key, value, db=self._table)
        self._counters.dead_prerequisites += decode_dead(value).prerequisite

    def remove(self, number: int, row: DeadRow) -> None:
        """Take out a dead letter."""
        self._env.txn.delete(keys.u64.pack(number), db=self._table)
        self._counters.dead_prerequisites -= row.prerequisite

    def numbered(self, numbers: Sequence[int], upto: int) -> tuple[Letters, int]:
        """Return the dead letters of the first numbers, up to `upto`, and how many numbers that were.

        Not all, if the letters have AT_ONCE bytes. A number is in the list once.
        """
        found, size = Letters(), 0
        for count, number in enumerate(numbers):
            if size >= AT_ONCE:
                return found, count
            value = self._env.txn.get(keys.u64.pack(number), db=self._table) if 0 < number <= upto else None
            if value is not None:
                found.append((number, decode_dead(value)))
                size += len(value)
        return found, len(numbers)

    def after(self, number: int, limit: int) -> tuple[Letters, bool]:
        """Return the first `limit` from a number on, fewer with AT_ONCE bytes, and whether there may be more."""
        found, size = Letters(), 0
        for key, value in self._env.view().items(keys.DEAD, keys.u64.pack(number)):
            if len(found) == limit or size >= AT_ONCE:
                return found, True
            found.append((keys.u64.unpack(key)[0], decode_dead(value)))
            size += len(value)
        return found, False
