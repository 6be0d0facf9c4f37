"""A cache of bounded size, for values that can be computed again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most `limit` entries, or with `weigh` of entries that together weigh no more than `limit`.

    The oldest entries are dropped when there is no room for a new one, a quarter of all at a time. Reading costs the
    same as in a dict. Entries are written with `put` alone, and only `clear` removes any.
    """

    def __init__(self, limit: int, weigh: Callable[[V], int] | None = None) -> None:
        super().__init__()
        self._limit = limit
        self._weigh = weigh
        self.weight = 0
        """What the entries weigh together; 0 without `weigh`."""

    def put(self, key: K, value: V) -> None:
        """Add an entry, or replace it, as the youngest. The one put last always stays, whatever it weighs."""
        if key in self:
            self._drop(key)
        if self._weigh is not None:
            self.weight += self._weigh(value)
            while self and self.weight > self._limit:
                self._drop_oldest()
        elif len(self) >= self._limit:
            self._drop_oldest()
        self[key] = value

    def refresh(self, key: K) -> None:
        """Make an entry the youngest."""
        self[key] = self.pop(key)

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self.weight = 0

    def _drop_oldest(self) -> None:
        for key in list(islice(self, (len(self) + 3) // 4)):
            self._drop(key)

    def _drop(self, key: K) -> None:
        value = self.pop(key)
        if self._weigh is not None:
            self.weight -= self._weigh(value)
