"""The Bloom filter of the URIs seen, with `duplicates: bloom`.

The table `seen` has the newest fingerprints, exactly. When they are many, a fold adds them to the filter, writes it to
the file of the next generation, syncs that, and empties the table in the transaction whose record names the file. So a
kill at any instant leaves either the older file and the full table, or the newer file and the empty one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.rules import duplicates
from budgetfrontier.storage import bloom_file, keys, meta
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import FilterRow

if TYPE_CHECKING:
    from budgetfrontier.settings.schema import BloomSettings


class SeenFilter:
    """The Bloom filter of one frontier, in memory and in its file. Raises MissingExtra, CorruptFrontier."""

    def __init__(self, env: Environment, bloom: BloomSettings) -> None:
        self._env = env
        self._expected = bloom.expected
        self._row = meta.read_filter(env.txn, env.db[keys.META]) or FilterRow(0, 0, 0)
        self._outdated = False
        """Whether the file of another generation may be there."""
        if not self._row.generation:
            self._filter = bloom_file.new(bloom)
        else:
            self._filter = bloom_file.read(env.path, self._row, bloom)
        if not env.memory:
            bloom_file.remove_others(env.path, self._row.generation)

    def __contains__(self, fingerprint: bytes) -> bool:
        return fingerprint in self._filter

    def has_room(self, more: int) -> bool:
        """Return whether so many more fingerprints may be recorded."""
        return self._row.number + self._unfolded() + more <= self._expected

    def fold_if_due(self) -> None:
        """Before a commit: move the fingerprints of the table to the filter if they are many. Raises StorageFull."""
        if self._unfolded() > duplicates.most_unfolded(self._expected):
            self._fold()

    def committed(self) -> None:
        """After a commit: remove the file of the generation before."""
        if self._outdated:
            bloom_file.remove_others(self._env.path, self._row.generation)
            self._outdated = False

    def close(self) -> None:
        """Free its memory at once: a closed frontier is a cycle of references, collected at any time later."""
        self.__dict__.pop("_filter", None)

    def _unfolded(self) -> int:
        return int(self._env.txn.stat(self._env.db[keys.SEEN])["entries"]) - 1  # without the sentinel

    def _fold(self) -> None:
        env, txn, table, row = self._env, self._env.txn, self._env.db[keys.SEEN], self._row
        number = row.number + self._unfolded()
        cursor = txn.cursor(table)
        self._filter.update(key for key in cursor.iternext(keys=True, values=False) if key != keys.SENTINEL)
        cursor.close()
        generation = row.generation + 1
        digest = 0
        if env.memory:
            generation = 0
        else:
            digest = bloom_file.write(env.path, generation, self._filter)
        txn.drop(table, delete=False)
        txn.put(keys.SENTINEL, b"", db=table)
        self._row = FilterRow(generation, number, digest)
        meta.write_filter(txn, env.db[keys.META], self._row)
        self._outdated = not env.memory
