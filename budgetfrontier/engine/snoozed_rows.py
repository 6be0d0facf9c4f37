"""The rows of the table `snoozed`: when which SNOOZED queue wakes.

The kernel keeps changes in memory until `flush`, at each commit and before anything else reads the table: they are
written by the batch, and a queue that rests for less than the time between two commits costs the table nothing.
"""

from __future__ import annotations

from typing import Any

from budgetfrontier.storage import keys


class SnoozedRows:
    """The rows in the order of their keys; each call is given a cursor of the table. O(log n)."""

    def __len__(self) -> int:
        """Return the number of changes that are to be written."""
        return 0

    def put(self, cursor: Any, row: bytes) -> None:
        """Add a row, given as its key: `keys.timed`."""
        cursor.put(row, b"")

    def delete(self, cursor: Any, row: bytes) -> None:
        """Delete a row."""
        if cursor.set_key(row):
            cursor.delete()

    def first(self, cursor: Any) -> bytes | None:
        """Return the first row; None if there is none."""
        return bytes(cursor.key()) if cursor.set_range(keys.FIRST) else None

    def flush(self, cursor: Any) -> None:
        """Write all changes."""
