"""Copies of the records of a damaged frontier: what cannot be read, or contradicts others, is set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import lmdb

from budgetfrontier.errors import PolicyError
from budgetfrontier.storage.repair.new_tables import NewTables
from budgetfrontier.storage.repair.notes import Notes
from budgetfrontier.storage.repair.pages import Salvage

_Row = TypeVar("_Row")


class RecordCopies:
    """Copies records from the salvaged pages into the new tables.

    The functions `read` return what they read of a record's key and value; their errors set the record aside, but for a
    PolicyError, which says nothing of the record: it ends the repair.
    """

    def __init__(self, source: Salvage, tables: NewTables, notes: Notes) -> None:
        self.source, self.tables, self.notes = source, tables, notes

    def readable(
        self, table: str, read: Callable[[bytes, bytes], _Row], errors: type[Exception] = ValueError
    ) -> Iterator[tuple[bytes, bytes, _Row]]:
        """Yield the key and the value of each record of a table that can be read, and what was read."""
        for key, value in self.source.records(table):
            try:
                row = read(key, value)
            except (lmdb.Error, PolicyError):
                raise
            except errors as e:
                self.set_aside(table, key, value, e)
                continue
            yield key, value, row

    def copied(
        self, table: str, read: Callable[[bytes, bytes], _Row], errors: type[Exception] = ValueError
    ) -> Iterator[_Row]:
        """Copy the records of a table as they are; yield what was read of each that is stored now."""
        for key, value, row in self.readable(table, read, errors):
            if self.store(table, key, value, (key, value)):
                yield row

    def copy(self, table: str, check: Callable[[bytes, bytes], object]) -> None:
        """Copy the records of a table as they are, without those for which `check` raises ValueError."""
        for _ in self.copied(table, check):
            pass

    def store(self, table: str, key: bytes, value: bytes, original: tuple[bytes, bytes]) -> bool:
        """Store a record and return True, or set the original aside if there is one with the same key already."""
        if self.tables.put(table, key, value):
            return True
        self.notes.set_aside(table, *original, "there is another one with the same key")
        return False

    def set_aside(self, table: str, key: bytes, value: bytes, error: Exception | str) -> None:
        """Note a record that is left out, with the error that says why."""
        self.notes.set_aside(table, key, value, str(error) or type(error).__name__)
