"""The tables that are checked, what the checks have read of them, and the problems found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path

from budgetfrontier.core.model import GroupRecord, QueueRecord
from budgetfrontier.core.units import counted
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.records import Counters, times_of

_TIMES = {kind: times_of(kind) for kind in (QueueRecord, GroupRecord, Counters)}


class CheckedTables:
    """The tables of one frontier. Without a `folder`, it is in memory. Raises CorruptFrontier and SettingsError."""

    def __init__(self, txn: keys.Txn, db: keys.Tables, folder: Path | None) -> None:
        self.txn, self.db, self.folder = txn, db, folder
        self.problems: list[str] = []
        self.counters = meta.read_counters(txn, db[keys.META])
        self.settings, _ = meta.read_settings(txn, db[keys.META])
        self.queues: dict[int, QueueRecord] = {}
        """By id, once they have been read."""

    def report(self, problem: str) -> None:
        """Note a problem."""
        self.problems.append(problem)

    def items(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a table, without the sentinel."""
        return (item for item in self.txn.cursor(self.db[table]) if item[0] != keys.SENTINEL)

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of a row, None if there is none."""
        return self.txn.get(key, db=self.db[table])

    def check_shapes(self, table: str, is_of_table: Callable[[bytes, bytes], bool]) -> None:
        """Report the rows of a table that can be none by their key or their value alone."""
        if self.get(table, keys.SENTINEL) is None:
            self.report(f"table {table}: the sentinel is missing")
        wrong = [key for key, value in self.items(table) if not is_of_table(key, value)]
        if wrong:
            self.report(f"{table}: {counted(len(wrong), 'row')} that cannot be one, the first under {wrong[0]!r}")

    def check_times(self, record: QueueRecord | GroupRecord | Counters, what: str) -> None:
        """Report the times of a record that no clock gives."""
        for name in _TIMES[type(record)]:
            if not 0 <= getattr(record, name) < inf:
                self.report(f"{what}: {name} is {getattr(record, name)}")
