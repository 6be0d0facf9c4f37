"""Reads a data file page by page, without LMDB, which trusts what it reads: all that can be read of a damaged one.

The file is in the format of LMDB 0.9: pages with their own number, the first two with the roots of the last two
transactions. Leaves that cannot be reached, for a page above them is damaged, are found again: they are neither in
another tree nor in the list of free pages.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self

from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.store import keys, meta
from budgetfrontier.store.records import decode_audit, decode_dead, decode_future, decode_lease, decode_queue

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8  # flags of pages
_BIG, _TABLE = 1, 2  # flags of records: the value has pages of its own; the value is the root of a table
_HEAD = Struct("=QHHHH")  # of a page: its number, padding, flags, and where its free space begins and ends
_NODE = Struct("=HHHH")  # of a record: size of its value, low and high (or the page below), flags, size of its key
_ROOTS = Struct(
    "=IIQQ48s48sQQ"
)  # of a meta page: magic, version, address, map size, free, main, last page, transaction
_TREE = Struct("=IHHQQQQQ")  # padding, flags, depth, branch pages, leaf pages, overflow pages, entries, root
_FREE_SIZE = Struct("=Q")
_NOWHERE = (1 << 64) - 1
_DEEPEST = 32
FINGERPRINT = 16  # bytes of a key of `seen`

Record = tuple[bytes, bytes]


class Lost(NamedTuple):
    """A page that cannot be used, or (`page` 0) the root of a table, or one record of a page."""

    table: str
    page: int
    why: str
    data: bytes = b""
    key: bytes | None = None


class _Gap(NamedTuple):
    """The keys that a page would have held that cannot be used."""

    table: str
    low: bytes
    high: bytes | None


class Salvage:
    """A data file, opened to be read as it is. Nobody may write it meanwhile."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._size = os.fstat(self._file).st_size
            self._given: dict[str, int] = {}
            self._leaves: dict[str, array[int]] = {}
            self._start()
            self._find_tables()
            self._find_orphans()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def records(self, table: str) -> Iterator[Record]:
        """What can be read of a table, in order but for what was found again; sentinels are left out."""
        self._given[table] = 0
        for number in self._leaves[table]:
            for key, value in self._records(table, number, self._read(number, 1)):
                self._given[table] += 1
                if key != keys.SENTINEL:
                    yield key, value

    def is_frontier(self) -> bool:
        """Whether there is anything of a frontier in it."""
        return any(self._leaves[table] for table in (keys.META, keys.QUEUES, keys.PENDING, keys.SEEN))

    def missing(self) -> dict[str, int]:
        """How many records of a table are not among those that were given, for tables of which some are not."""
        missing = {table: self._entries.get(table, 0) - given for table, given in self._given.items()}
        return {table: count for table, count in missing.items() if count > 0}

    def lacks(self, table: str) -> bool:
        """Whether some records of a table are lost, or may be; to be asked once it has been gone through."""
        return table not in self._entries or table in self.missing()

    @property
    def lost(self) -> list[Lost]:
        """What cannot be read; complete once all tables have been gone through."""
        return list(self._lost)

    def _lose(self, lost: Lost) -> None:
        self._lost[lost] = None  # once, for a table may be gone through twice

    # -- pages

    def _read(self, number: int, count: int) -> bytes:
        """Pages as they are, fewer where the file or the disk ends."""
        try:
            return os.pread(self._file, count * self.page_size, number * self.page_size)
        except OSError:  # the disk cannot read it
            return b""

    def _start(self) -> None:
        """At the newest root from which all can be found: from its tree of tables, or its list of free pages."""
        roots = sorted(self._readable_roots(), reverse=True)
        for root in *roots, roots[0]:
            self.transaction, self.page_size, last, free, main = root
            self._seen = bytearray(min(last, self._size // self.page_size) + 1)
            self._lost: dict[Lost, None] = {}
            self._gaps: list[_Gap] = []
            self._entries: dict[str, int] = {}  # that each table should hold
            self._roots = dict(self._find_roots(_TREE.unpack(main)[7]))
            found = not self._lost
            self._unused = self._free_pages(_TREE.unpack(free)[7])
            if found or self._unused is not None:
                break
        if root != roots[0]:
            self._lose(Lost("main", 0, "the tables as of the last commit cannot be found: these are of the one before"))

    def _readable_roots(self) -> Iterator[tuple[int, int, int, bytes, bytes]]:
        """Transaction, page size, last page, free tree and main tree of the last two commits."""
        found = False
        sizes = [1 << bits for bits in range(8, 17)]
        for offset, size in [(0, size) for size in sizes] + [(size, size) for size in sizes]:
            page = os.pread(self._file, _HEAD.size + _ROOTS.size, offset)
            if len(page) < _HEAD.size + _ROOTS.size:
                continue
            number, _, flags, _, _ = _HEAD.unpack_from(page)
            magic, version, _, _, free, main, last, transaction = _ROOTS.unpack_from(page, _HEAD.size)
            sound = (magic, version, flags & _META, number) == (_MAGIC, _VERSION, _META, bool(offset))
            if sound and _TREE.unpack(free)[0] == size and transaction % 2 == number and last > 0:
                found = True
                yield transaction, size, last, free, main
        if not found:
            raise CorruptFrontier(f"{self._data}: neither of its two roots can be read; restore a backup")

    def _page(self, number: int, table: str, low: bytes, high: bytes | None) -> bytes | None:
        """A page of a tree that holds what it should; None, and noted as lost, for any other."""
        page, why = b"", ""
        if not 2 <= number < len(self._seen):
            why = "out of the file"
        elif self._seen[number]:
            why = "belongs to another place"
        else:
            page = self._read(number, 1)
            why = self._unsound(page, number, low, high)
        if why:
            self._lose(Lost(table, number, why, page))
            self._gaps.append(_Gap(table, low, high))
            return None
        self._seen[number] = 1
        return page

    def _unsound(self, page: bytes, number: int, low: bytes, high: bytes | None) -> str:
        if len(page) < self.page_size:
            return "unreadable"
        own, _, flags, lower, upper = _HEAD.unpack_from(page)
        if own != number or flags not in (_BRANCH, _LEAF):
            return "no page of a tree"
        if not _HEAD.size <= lower <= upper <= self.page_size or lower % 2:
            return "its head is damaged"
        if flags == _LEAF and not any(low <= key and (high is None or key < high) for key in self._keys(page)):
            return "holds other keys than it should"
        return ""

    def _nodes(self, page: bytes) -> Iterator[tuple[int, int, int, bytes | None]]:
        """Offset, size (or page below), flags and key of what a page holds; the key is None if that is damaged."""
        lower = _HEAD.unpack_from(page)[3]
        for place in range(_HEAD.size, lower, 2):
            at = int.from_bytes(page[place : place + 2], sys.byteorder)
            if at < lower or at + _NODE.size > len(page):
                yield at, 0, 0, None
                continue
            low, high, flags, size = _NODE.unpack_from(page, at)
            start = at + _NODE.size
            yield at, low | high << 16, flags, page[start : start + size] if start + size <= len(page) else None

    def _keys(self, page: bytes) -> Iterator[bytes]:
        return (key for _, _, _, key in self._nodes(page) if key is not None)

    # -- trees

    def _walk(self, table: str, root: int) -> Iterator[int]:
        """The leaves of a tree that can be reached, by key."""
        todo: list[tuple[int, bytes, bytes | None, int]] = [(root, b"", None, 1)]
        while todo:
            number, low, high, depth = todo.pop()
            page = self._page(number, table, low, high)
            if page is None:
                continue
            if _HEAD.unpack_from(page)[2] == _LEAF:
                yield number
            elif depth < _DEEPEST:
                below = self._children(table, number, page, low, high)
                todo += [(child, start, end, depth + 1) for child, start, end in reversed(below)]

    def _children(
        self, table: str, number: int, page: bytes, low: bytes, high: bytes | None
    ) -> list[tuple[int, bytes, bytes | None]]:
        """The pages below a branch page, and between which keys each must be."""
        below: list[int] = []
        starts: list[bytes] = []
        for at, size, flags, key in self._nodes(page):
            if key is None:
                self._lose(Lost(table, number, f"its entry at {at} is damaged", page))
                self._gaps.append(_Gap(table, low, high))
            else:
                starts.append(key if below else low)  # the first one has no key of its own
                below.append(size | flags << 32)
        ends = [*starts[1:], high]
        if all(start < end for start, end in pairwise(starts)) and (high is None or not starts or starts[-1] < high):
            return list(zip(below, starts, ends, strict=True))
        return [(child, low, high) for child in below]  # some key is damaged: nobody knows which

    def _records(self, table: str, number: int, page: bytes) -> Iterator[Record]:
        """What a leaf holds; what is damaged of it is noted as lost."""
        for at, size, flags, key in self._nodes(page):
            if key is None:
                self._lose(Lost(table, number, f"its record at {at} is damaged", page))
                continue
            start = at + _NODE.size + len(key)
            value = self._value(page, start, size, flags)
            if value is None:
                self._lose(Lost(table, number, "the value of a record is damaged", page[at:start], key))
            else:
                yield key, value

    def _value(self, page: bytes, start: int, size: int, flags: int) -> bytes | None:
        if not flags & _BIG:
            return page[start : start + size] if start + size <= len(page) else None
        if start + 8 > len(page):
            return None
        number = int.from_bytes(page[start : start + 8], sys.byteorder)
        count = (_HEAD.size - 1 + size) // self.page_size + 1
        if not 2 <= number <= len(self._seen) - count:
            return None
        pages = self._read(number, count)
        if len(pages) < count * self.page_size:
            return None
        own, _, kind, low, high = _HEAD.unpack_from(pages)
        if (own, kind, low | high << 16) != (number, _OVERFLOW, count):
            return None
        return pages[_HEAD.size : _HEAD.size + size]

    # -- tables

    def _find_roots(self, main: int) -> Iterator[tuple[str, int]]:
        """The roots of the tables, in the tree of tables."""
        for number in self._walk("main", main):
            page = self._read(number, 1)
            for at, size, flags, key in self._nodes(page):
                value = None if key is None else self._value(page, at + _NODE.size + len(key), size, flags)
                if key is not None and value is not None and flags == _TABLE and len(value) == _TREE.size:
                    name = key.decode("utf-8", "replace")
                    *_, self._entries[name], root = _TREE.unpack(value)
                    yield name, root

    def _find_tables(self) -> None:
        for table in keys.TABLES:
            root = self._roots.get(table)
            if root is None:
                self._lose(Lost(table, 0, "the root of the table is lost"))
                self._gaps.append(_Gap(table, b"", None))
            self._leaves[table] = array("Q", self._walk(table, root) if root not in (None, _NOWHERE) else ())

    def _find_orphans(self) -> None:
        """Give the leaves below pages that are lost back to their tables, if it can be known which are in use."""
        gaps = [gap for gap in self._gaps if gap.table in _SHAPES]
        if not gaps:
            return
        if self._unused is None:
            self.lost.append(
                Lost("free pages", 0, "the list of free pages is damaged: what is below lost pages is lost")
            )
            return
        found: dict[str, list[tuple[bytes, int]]] = {}
        for number in range(2, len(self._seen)):
            if self._seen[number] or self._unused[number]:
                continue
            page = self._read(number, 1)
            if self._unsound(page, number, b"", None) or _HEAD.unpack_from(page)[2] != _LEAF:
                continue
            table = self._table_of(number, page, gaps)
            if table is not None:
                self._seen[number] = 1
                found.setdefault(table, []).append((next(self._keys(page), b""), number))
        for table, leaves in found.items():
            self._leaves[table].extend(number for _, number in sorted(leaves))

    def _free_pages(self, root: int) -> bytearray | None:
        """A mark for each page that is free; None if that cannot be known."""
        unused = bytearray(len(self._seen))
        if root == _NOWHERE:
            return unused
        for leaf in list(self._walk("free pages", root)):
            for _, value in self._records("free pages", leaf, self._read(leaf, 1)):
                numbers = array("Q", value[8 : len(value) // 8 * 8])
                if len(value) % 8 or len(value) < 8 or _FREE_SIZE.unpack_from(value)[0] != len(numbers):
                    return None
                for number in numbers:
                    if number < len(unused):
                        unused[number] = 1
        return None if any(lost.table == "free pages" for lost in self._lost) else unused

    def _table_of(self, number: int, page: bytes, gaps: list[_Gap]) -> str | None:
        """The table that a leaf must belong to: it fills a gap there, and its records look like those of the table."""
        noted = dict(self._lost)
        records = list(self._records("", number, page))
        self._lost = noted
        if not records:
            return None
        for table, low, high in gaps:
            if any(low <= key and (high is None or key < high) for key, _ in records) and any(
                _SHAPES[table](key, value) for key, value in records
            ):
                return table
        return None


def _decodes(decode: Callable[[bytes], object], value: bytes) -> bool:
    try:
        decode(value)
    except ValueError:
        return False
    return True


_SHAPES: dict[str, Callable[[bytes, bytes], bool]] = {
    keys.META: lambda key, value: key in meta.NAMES,
    keys.QUEUES: lambda key, value: len(key) == keys.u32.size and _decodes(decode_queue, value),
    keys.QUEUE_IDS: lambda key, value: len(value) == keys.u32.size and b"\0" not in key,
    keys.PENDING: lambda key, value: len(key) == keys.pending.size,
    keys.SEEN: lambda key, value: len(key) == FINGERPRINT and not value,
    keys.LEASES: lambda key, value: len(key) == keys.u64.size and _decodes(decode_lease, value),
    keys.FUTURE: lambda key, value: len(key) == keys.due.size and _decodes(decode_future, value),
    keys.DEAD: lambda key, value: len(key) == keys.u64.size and _decodes(decode_dead, value),
    keys.AUDIT: lambda key, value: len(key) == keys.u64.size and _decodes(decode_audit, value),
}
"""What the records of a table look like. The tables that are left out are made from others, and need not be found."""
