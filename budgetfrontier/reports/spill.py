"""Sorting and adding up with bounded memory, and a temporary file for the rest."""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Iterable, Iterator
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, Any
from weakref import finalize

_MOST = 200_000
"""Items in memory at most: some 50 MB."""
_CHUNK = 500

Item = tuple[Any, ...]
"""Plain data: bytes, str, int, float, None."""


class Sorter:
    """Any number of tuples, which come out sorted. Memory: `most` of them, and then some hundreds of each such part."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._items: list[Item] = []
        self._file: IO[bytes] | None = None
        self._parts: list[list[tuple[int, int]]] = []  # of each sorted part, the places of its chunks in the file

    def add(self, item: Item) -> None:
        """Add an item. O(1), and a pass to the file for every `most` of them."""
        self._items.append(item)
        if len(self._items) >= self._most:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115  # it lives as long as the sorter
            finalize(self, self._file.close)
        self._items.sort()
        places = []
        for start in range(0, len(self._items), _CHUNK):
            data = marshal.dumps(self._items[start : start + _CHUNK])
            places.append((self._file.seek(0, 2), len(data)))
            self._file.write(data)
        self._parts.append(places)
        self._items = []

    def __iter__(self) -> Iterator[Item]:
        """Yield the items, sorted."""
        self._items.sort()
        parts: list[Iterable[Item]] = [chain.from_iterable(map(self._read, places)) for places in self._parts]
        return heapq.merge(*parts, self._items) if parts else iter(self._items)

    def _read(self, place: tuple[int, int]) -> list[Item]:
        assert self._file is not None
        offset, size = place
        self._file.seek(offset)
        items: list[Item] = marshal.loads(self._file.read(size))
        return items


class Sums:
    """Amounts added up by key. Memory: `most` different keys, however many there are."""

    def __init__(self, width: int, most: int = _MOST) -> None:
        self._zeros = [0] * width
        self._most = most
        self._sums: dict[bytes, list[int]] = {}
        self._sorter = Sorter(most)
        self._spilled = False

    def of(self, key: bytes) -> list[int]:
        """Return the sums of a key, to be added to before the next call."""
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) >= self._most:
                self._spill()
            sums = self._sums[key] = self._zeros.copy()
        return sums

    def _spill(self) -> None:
        for key, sums in self._sums.items():
            self._sorter.add((key, *sums))
        self._sums.clear()
        self._spilled = True

    def __iter__(self) -> Iterator[Item]:
        """Yield (key, sum, ...) by key."""
        if not self._spilled:
            for key in sorted(self._sums):
                yield key, *self._sums[key]
            return
        self._spill()
        before: Item | None = None
        for item in self._sorter:
            if before is not None and before[0] == item[0]:
                item = (item[0], *map(sum, zip(before[1:], item[1:], strict=True)))
            elif before is not None:
                yield before
            before = item
        if before is not None:
            yield before


def largest_first(items: Iterable[Item], place: int, limit: int | None = None) -> Iterator[Item]:
    """Yield items by the amount at `place`, the largest first, and by key; at most `limit` of them."""
    if limit is not None:
        yield from heapq.nsmallest(limit, items, key=lambda item: (-item[place], item[0]))
        return
    sorter = Sorter()
    for item in items:
        sorter.add((-item[place], *item))
    for item in sorter:
        yield item[1:]
