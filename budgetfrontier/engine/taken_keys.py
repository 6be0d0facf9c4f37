"""The keys of the pending URIs that may not go out: those that are out, and those whose records wait for deletion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Record = tuple[bytes, bytes]
"""A key and its value."""


class TakenKeys:
    """A set of keys, some of which are removed: they stay until their records are deleted. O(1) for each."""

    def __init__(self) -> None:
        self._taken: set[bytes] = set()
        self._removed: list[bytes] = []

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, key: object) -> bool:
        return key in self._taken

    @property
    def removed(self) -> int:
        """The number of the records that are to be deleted."""
        return len(self._removed)

    def add(self, key: bytes) -> None:
        """Take a key."""
        self._taken.add(key)

    def discard(self, key: bytes) -> None:
        """Let the URI of a key go out again."""
        self._taken.discard(key)

    def remove(self, key: bytes) -> None:
        """Note that the record of a key which is taken is to be deleted."""
        self._removed.append(key)

    def isdisjoint(self, keys: Iterable[bytes]) -> bool:
        """Return whether none of some keys is taken."""
        return self._taken.isdisjoint(keys)

    def delete_removed(self, cursor: Any, *, keeps: bool) -> list[Record]:
        """Delete the removed records with a cursor of their table, and forget their keys; return them if it `keeps`.

        It goes in the order of keys, for the next key often follows the one deleted.
        """
        at, seek, delete = cursor.key, cursor.set_key, cursor.delete
        left: list[Record] = []
        for key in sorted(self._removed):
            if at() == key or seek(key):
                if keeps:
                    left.append((key, cursor.value()))
                delete()
        self._taken.difference_update(self._removed)
        self._removed.clear()
        return left
