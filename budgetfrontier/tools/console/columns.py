"""The columns of a scan: for each queue its id, state and key, and the order of all queues by each amount.

A scan writes them to a file, which the console maps into its memory: they count as no memory of its own, and two scans
share no byte. The values themselves are not kept: a page reads those of its rows, as of the last commit.

For each order there are, besides the rows of the queues in it, the amount of each row, and the state at each place: the
queues of a state are found with `bytes.find`, at the speed of memory.
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import merge
from itertools import accumulate, islice
from operator import attrgetter
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.vocabulary import QueueState

SORTS: dict[str, Callable[[QueueRecord], Any]] = {
    "queued": attrgetter("queued"),
    "enqueued": attrgetter("enqueued"),
    "expenditure": attrgetter("expenditure"),
    "average_cost": attrgetter("average_cost"),
    "errors": attrgetter("errors"),
    "balance": attrgetter("balance"),
    "last_lease_time": attrgetter("last_lease_time"),
}
"""The columns by which queues can be sorted, the largest first."""

STATES = tuple(QueueState)
_SCALE = 1000  # of average costs, which are kept as whole numbers
_charged = attrgetter("expenditure", "penalties", "charges")
_id, _state = attrgetter("id"), attrgetter("state")
_FEW = 10_000  # different amounts, up to which rows are put together by amount, at a third of the cost of sorting
_PART = 1 << 12  # queues that are noted at once
_DENSE = 20_000  # keys with the text that is looked for, from which on the order is followed instead
_WALK = 400_000  # rows that are looked at in the order, at the most


class ColumnLayout(msgspec.Struct):
    """Where the columns are in the file: the number of queues, and the sizes in bytes of all parts, in order."""

    queues: int
    parts: dict[str, int]


class Builder:
    """The columns under construction. Keys wait in the file of the columns, amounts in files of their own.

    Memory: some 100 bytes for each queue while an order is sorted.
    """

    def __init__(self, file: IO[bytes], progress: Callable[[int], None] = lambda queues: None) -> None:
        """`progress` is called now and then with the number of queues that were noted."""
        self._file, self._progress = file, progress
        self._ids, self._ends = array("I"), array("I")
        self._states = bytearray()
        self._written = 0
        """Bytes of keys that are in the file."""
        self._amounts = {name: TemporaryFile() for name in SORTS}  # noqa: SIM115
        self._number = {state: number for number, state in enumerate(STATES)}

    def through(self, queues: Iterable[QueueRecord]) -> Iterator[QueueRecord]:
        """Yield the same queues, and note them as they pass."""
        remaining = iter(queues)
        while part := list(islice(remaining, _PART)):
            self._add(part)
            self._progress(len(self._ids))
            yield from part

    def _add(self, queues: list[QueueRecord]) -> None:
        self._ids.extend(map(_id, queues))
        self._states.extend(map(self._number.__getitem__, map(_state, queues)))
        keys = [queue.queue.encode() + b"\0" for queue in queues]  # no key contains it
        ends = accumulate(map(len, keys), initial=self._written)
        self._ends.extend(islice(ends, 1, None))
        self._written += self._file.write(b"".join(keys))
        for name, get in SORTS.items():
            if name == "average_cost":
                charged = map(_charged, queues)
                # copies `QueueRecord.average_cost`, without a call for each queue
                amounts = [_SCALE * (spent - penalties) // (count or 1) for spent, penalties, count in charged]
            else:
                amounts = list(map(get, queues))
            array("q", amounts).tofile(self._amounts[name])

    def write(self, progress: Callable[[float], None]) -> ColumnLayout:
        """Sort, and write the columns to the file. O(n log n), about 1 us for each queue and order."""
        sizes = {"names": self._written}
        self._file.write(_padding(self._written))

        def put(name: str, part: array[int] | bytearray | bytes) -> None:
            sizes[name] = self._file.write(part)
            self._file.write(_padding(sizes[name]))

        put("ids", self._ids)
        put("states", self._states)
        put("ends", self._ends)
        for done, (name, aside) in enumerate(self._amounts.items()):
            amounts = array("q")
            with aside:
                aside.seek(0)
                amounts.fromfile(aside, len(self._ids))
            order = _sorted(amounts)
            put(f"order-{name}", order)
            put(f"states-{name}", bytes(map(self._states.__getitem__, order)))
            put(f"amounts-{name}", amounts)
            progress((done + 1) / len(SORTS))
        self._file.write(bytes(8))  # an empty file cannot be mapped
        self._file.flush()
        return ColumnLayout(len(self._ids), sizes)


def _padding(size: int) -> bytes:
    """Return the padding after a part, so that the next one begins at a multiple of eight."""
    return b"\0" * (-size % 8)


def _sorted(amounts: array[int]) -> array[int]:
    """Return the positions of the amounts, the largest first; equal ones stay in order."""
    distinct = set(amounts)
    if len(distinct) > _FEW:
        return array("I", sorted(range(len(amounts)), key=amounts.__getitem__, reverse=True))
    rows = {amount: array("I") for amount in sorted(distinct, reverse=True)}
    add = {amount: row.append for amount, row in rows.items()}
    for at, amount in enumerate(amounts):
        add[amount](at)
    order = array("I")
    for row in rows.values():
        order += row
    return order


class Columns:
    """The columns of a finished scan."""

    def __init__(self, file: IO[bytes], layout: ColumnLayout) -> None:
        self.count = layout.queues
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at: dict[str, tuple[int, int]] = {}
        whole, start = memoryview(self._map), 0
        for name, size in layout.parts.items():
            self._at[name] = (start, start + size)
            start += size + -size % 8
        part: Callable[[str], memoryview[Any]] = lambda name: whole[slice(*self._at[name])]  # noqa: E731
        self._ids, self._ends = part("ids").cast("I"), part("ends").cast("I")
        self._orders = {name: part(f"order-{name}").cast("I") for name in SORTS}
        self._amounts = {name: part(f"amounts-{name}").cast("q") for name in SORTS}

    def page(
        self,
        sort: str,
        *,
        states: Collection[QueueState] = (),
        text: str,
        start: int,
        limit: int,
        reverse: bool = False,
    ) -> tuple[list[int], bool]:
        """Return the ids of a page of queues, and whether there are more.

        `states` are those of the queues, none: all; `text` is a part of the key, `start` the number of rows before the
        page. O(start + limit) for a state, with a text the keys that have it; at most about 0.1 s.
        """
        numbers = [STATES.index(state) for state in states]
        if "\0" in text:
            return [], False  # it ends each key in the columns
        if text:
            rows = self._with_text(sort, text.encode("utf-8", "replace"), numbers, reverse)
        elif numbers:
            rows = self._in_states(sort, numbers, reverse)
        else:
            rows = self._in_order(sort, reverse, start)
            start = 0
        found = [self._ids[row] for row in islice(rows, start, start + limit + 1)]
        return found[:limit], len(found) > limit

    def _in_order(self, sort: str, reverse: bool, start: int = 0) -> Iterator[int]:
        """Yield the rows of all queues in an order, without the first `start`."""
        places = range(self.count - 1 - start, -1, -1) if reverse else range(start, self.count)
        return map(self._orders[sort].__getitem__, places)

    def _in_states(self, sort: str, numbers: Collection[int], reverse: bool) -> Iterator[int]:
        """Yield the rows of some states in an order."""
        places = [self._places(sort, number, reverse) for number in numbers]
        return map(self._orders[sort].__getitem__, merge(*places, reverse=reverse))

    def _places(self, sort: str, number: int, reverse: bool) -> Iterator[int]:
        """Yield the places of a state in an order."""
        first, last = self._at[f"states-{sort}"]
        wanted = bytes((number,))
        find, at = (self._map.rfind, last) if reverse else (self._map.find, first)
        while True:
            at = find(wanted, first, at) if reverse else find(wanted, at, last)
            if at < 0:
                return
            yield at - first
            at += 0 if reverse else 1

    def _with_text(self, sort: str, text: bytes, numbers: Collection[int], reverse: bool) -> Iterator[int]:
        """Yield the rows of the queues whose key contains a text, in an order."""
        found = self._rows_with(text)
        if found is None:
            rows = self._in_states(sort, numbers, reverse) if numbers else self._in_order(sort, reverse)
            yield from (row for row in islice(rows, _WALK) if text in self._key(row))
            return
        if numbers:
            first = self._at["states"][0]
            found = [row for row in found if self._map[first + row] in numbers]
        found.sort(key=self._amounts[sort].__getitem__, reverse=True)  # equal ones stay in order
        yield from reversed(found) if reverse else found

    def _rows_with(self, text: bytes) -> list[int] | None:
        """Return the rows whose keys contain a text; None if there are many."""
        first, last = self._at["names"]
        rows: list[int] = []
        at = first
        while (at := self._map.find(text, at, last)) >= 0:
            row = bisect_right(self._ends, at - first)
            rows.append(row)
            if len(rows) > _DENSE:
                return None
            at = first + self._ends[row]
        return rows

    def _key(self, row: int) -> bytes:
        first = self._at["names"][0]
        return self._map[first + (self._ends[row - 1] if row else 0) : first + self._ends[row] - 1]
