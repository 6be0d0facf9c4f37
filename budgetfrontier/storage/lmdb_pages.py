"""The pages and trees of a data file, read without LMDB, which crashes on damaged files.

The format is that of LMDB 0.9: each page contains its own number, the first two contain the roots of the last two
transactions. Pages are read from the file, not through a map, where access behind the end of the file ends the process.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from budgetfrontier.errors import CorruptFrontier

LEAF, TABLE = 2, 2  # flags: of a page with records; of a record with the root of a table as its value
NOWHERE = (1 << 64) - 1  # the root of an empty tree
TREE = Struct("=IHHQQQQQ")  # padding, flags, depth, branch pages, leaf pages, overflow pages, entries, root
FREE = "free pages"  # the name used here for the tree of free pages

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _OVERFLOW, _META = 1, 4, 8  # flags of pages
_BIG = 1  # flag of a record: the value has pages of its own
_HEAD = Struct("=QHHHH")  # of a page: its number, padding, flags, and where its free space begins and ends
_NODE = Struct("=HHHH")  # of a record: size of its value, low and high (or the page below), flags, size of its key
_ROOTS = Struct(
    "=IIQQ48s48sQQ"
)  # of a meta page: magic, version, address, map size, free, main, last page, transaction
_NUMBER = Struct("=Q")
_DEEPEST = 32

Record = tuple[bytes, bytes]


class Lost(NamedTuple):
    """A loss: a page that cannot be used, one of its records, or (`page` 0) the root of a table."""

    table: str
    page: int
    why: str
    data: bytes = b""
    key: bytes | None = None


class Gap(NamedTuple):
    """The range of keys of a page that cannot be used."""

    table: str
    low: bytes
    high: bytes | None


class Root(NamedTuple):
    """The root of all trees as of one transaction."""

    transaction: int
    page_size: int
    last: int
    """The number of the last page, in use or free."""
    free: int
    """The root of the tree of free pages."""
    main: int
    """The root of the tree of tables."""
    depth: int
    """Levels of that tree."""
    entries: int
    """The number of tables that the tree should contain."""


class File:
    """A data file, open for reading until it is closed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = os.open(data, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._file)

    def size(self) -> int:
        """Return the size of the file now, in bytes."""
        return os.fstat(self._file).st_size

    def read(self, root: Root, number: int, count: int = 1) -> bytes:
        """Return the bytes of pages; fewer if the file ends before, none if the disk cannot read them."""
        try:
            return os.pread(self._file, count * root.page_size, number * root.page_size)
        except OSError:  # the disk cannot read it
            return b""

    def roots(self) -> list[Root]:
        """Return the readable roots of the last two transactions, newest first. Raises CorruptFrontier if none is."""
        found = []
        sizes = [1 << bits for bits in range(8, 17)]
        for offset, size in [(0, size) for size in sizes] + [(size, size) for size in sizes]:
            page = os.pread(self._file, _HEAD.size + _ROOTS.size, offset)
            if len(page) < _HEAD.size + _ROOTS.size:
                continue
            number, _, flags, _, _ = _HEAD.unpack_from(page)
            magic, version, _, _, free, main, last, transaction = _ROOTS.unpack_from(page, _HEAD.size)
            sound = (magic, version, flags & _META, number) == (_MAGIC, _VERSION, _META, bool(offset))
            if sound and TREE.unpack(free)[0] == size and transaction % 2 == number and last > 0:
                _, _, depth, _, _, _, entries, tables = TREE.unpack(main)
                found.append(Root(transaction, size, last, TREE.unpack(free)[7], tables, depth, entries))
        if not found:
            raise CorruptFrontier(f"{self._data}: neither of its two roots can be read; restore a backup")
        return sorted(found, reverse=True)


class Trees:
    """The trees below one root. `lost` and `gaps` collect the parts that cannot be read."""

    def __init__(self, file: File, root: Root) -> None:
        self.root = root
        self._file = file
        self.seen = bytearray(min(root.last, file.size() // root.page_size) + 1)
        """For each page of the file, whether it has been read as part of a tree."""
        self.lost: dict[Lost, None] = {}
        self.gaps: list[Gap] = []

    def lose(self, lost: Lost) -> None:
        """Record a loss, once, even if the table is read twice."""
        self.lost[lost] = None

    # -- pages

    def read(self, number: int) -> bytes:
        return self._file.read(self.root, number)

    def page(self, number: int, table: str, low: bytes, high: bytes | None) -> bytes | None:
        """Return a page of a tree that has keys in this range; None if it is not sound, which is recorded as a loss."""
        page, why = b"", ""
        if not 2 <= number < len(self.seen):
            why = "beyond the end of the file"
        elif self.seen[number]:
            why = "belongs to another tree, or twice to this one"
        else:
            page = self.read(number)
            why = self.unsound(page, number, low, high)
        if why:
            self.lose(Lost(table, number, why, page))
            self.gaps.append(Gap(table, low, high))
            return None
        self.seen[number] = 1
        return page

    def unsound(self, page: bytes, number: int, low: bytes = b"", high: bytes | None = None) -> str:
        """Return the damage of a page that should have keys in this range; "" if it is sound."""
        if len(page) < self.root.page_size:
            return "unreadable"
        own, _, flags, lower, upper = _HEAD.unpack_from(page)
        if own != number or flags not in (_BRANCH, LEAF):
            return "not a page of a tree"
        if not _HEAD.size <= lower <= upper <= self.root.page_size or lower % 2:
            return "its header is damaged"
        if flags == LEAF and not any(low <= key and (high is None or key < high) for key in self.keys(page)):
            return "has no key in the expected range"
        return ""

    def nodes(self, page: bytes) -> Iterator[tuple[int, int, int, bytes | None]]:
        """Yield offset, size (or page below), flags and key of each record of a page; a damaged one has key None."""
        lower = _HEAD.unpack_from(page)[3]
        for slot in range(_HEAD.size, lower, 2):
            at = int.from_bytes(page[slot : slot + 2], sys.byteorder)
            if at < lower or at + _NODE.size > len(page):
                yield at, 0, 0, None
                continue
            low, high, flags, size = _NODE.unpack_from(page, at)
            start = at + _NODE.size
            yield at, low | high << 16, flags, page[start : start + size] if start + size <= len(page) else None

    def keys(self, page: bytes) -> Iterator[bytes]:
        """Yield the readable keys of a page."""
        return (key for _, _, _, key in self.nodes(page) if key is not None)

    # -- trees

    def walk(self, table: str, root: int) -> Iterator[int]:
        """Yield the numbers of the reachable leaves, in the order of their keys."""
        todo: list[tuple[int, bytes, bytes | None, int]] = [] if root == NOWHERE else [(root, b"", None, 1)]
        while todo:
            number, low, high, depth = todo.pop()
            page = self.page(number, table, low, high)
            if page is None:
                continue
            if is_leaf(page):
                yield number
            elif depth < _DEEPEST:
                below = self._children(table, number, page, low, high)
                todo += [(child, start, end, depth + 1) for child, start, end in reversed(below)]

    def _children(
        self, table: str, number: int, page: bytes, low: bytes, high: bytes | None
    ) -> list[tuple[int, bytes, bytes | None]]:
        """Return the pages below a branch page, and the range of keys of each."""
        below: list[int] = []
        starts: list[bytes] = []
        for at, size, flags, key in self.nodes(page):
            if key is None:
                self.lose(Lost(table, number, f"its entry at {at} is damaged", page))
                self.gaps.append(Gap(table, low, high))
            else:
                starts.append(key if below else low)  # the first entry has no key
                below.append(size | flags << 32)
        if table == FREE:  # keys are numbers in native byte order, which do not sort as bytes
            return [(child, low, high) for child in below]
        ends = [*starts[1:], high]
        if all(start < end for start, end in pairwise(starts)) and (high is None or not starts or starts[-1] < high):
            return list(zip(below, starts, ends, strict=True))
        return [(child, low, high) for child in below]  # some key is damaged, and it is unknown which

    def records(self, table: str, number: int, page: bytes) -> Iterator[Record]:
        """Yield the records of a leaf; damaged ones are recorded as losses."""
        for at, size, flags, key in self.nodes(page):
            if key is None:
                self.lose(Lost(table, number, f"its record at {at} is damaged", page))
                continue
            start = at + _NODE.size + len(key)
            value = self._value(page, start, size, flags)
            if value is None:
                self.lose(Lost(table, number, "the value of a record is damaged", page[at:start], key))
            else:
                yield key, value

    def _value(self, page: bytes, start: int, size: int, flags: int) -> bytes | None:
        if not flags & _BIG:
            return page[start : start + size] if start + size <= len(page) else None
        if start + 8 > len(page):
            return None
        number = int.from_bytes(page[start : start + 8], sys.byteorder)
        count = (_HEAD.size - 1 + size) // self.root.page_size + 1
        if not 2 <= number <= len(self.seen) - count:
            return None
        pages = self._file.read(self.root, number, count)
        if len(pages) < count * self.root.page_size:
            return None
        own, _, kind, low, high = _HEAD.unpack_from(pages)
        if (own, kind, low | high << 16) != (number, _OVERFLOW, count):
            return None
        return pages[_HEAD.size : _HEAD.size + size]

    def tables(self) -> Iterator[tuple[str, int, int]]:
        """Yield the tables that can be found: name, number of records according to the root, root page."""
        for number in self.walk("main", self.root.main):
            page = self.read(number)
            for at, size, flags, key in self.nodes(page):
                value = None if key is None else self._value(page, at + _NODE.size + len(key), size, flags)
                if key is not None and value is not None and flags == TABLE and len(value) == TREE.size:
                    *_, entries, root = TREE.unpack(value)
                    yield key.decode("utf-8", "replace"), entries, root

    def free_lists(self) -> Iterator[array[int]]:
        """Yield the numbers of the free pages, list by list; lists that cannot be read are recorded as losses."""
        for leaf in self.walk(FREE, self.root.free):
            for key, value in self.records(FREE, leaf, self.read(leaf)):
                numbers = array("Q", value[_NUMBER.size : len(value) // 8 * 8])
                count = _NUMBER.unpack_from(value)[0] if len(value) >= _NUMBER.size else 1
                if count > len(numbers):
                    self.lose(Lost(FREE, leaf, "a list of free pages is damaged", value, key))
                    continue
                yield numbers[:count]  # LMDB may reserve more room than a list takes


def is_leaf(page: bytes) -> bool:
    """Return whether a sound page is a leaf, which has records, rather than a branch."""
    return bool(_HEAD.unpack_from(page)[2] == LEAF)


def lacks_free_pages_only(data: Path) -> bool:
    """Return whether all pages beyond the end of a data file are free, as of its last commit.

    LMDB does not write a page that was allocated and freed in the same transaction, so that free pages may be beyond
    the end of the file. If the file may be written meanwhile, the caller has to hold a snapshot, so that no page in use
    is overwritten. O(list of free pages).
    """
    with closing(File(data)) as file:
        root = _newest_root(file)
        trees = Trees(file, root)
        size = file.size()
        if _is_absurd(root, size):
            return False
        first = size // root.page_size
        missing = bytearray(b"\1" * (root.last + 1 - first))
        for numbers in trees.free_lists():
            if max(numbers, default=0) >= first:
                for number in numbers:
                    if first <= number <= root.last:
                        missing[number - first] = 0
        return not any(missing)


def has_damaged_roots(data: Path) -> bool:
    """Return whether a file that cannot be opened or mapped has roots that no sound file has."""
    with closing(File(data)) as file:
        try:
            roots = file.roots()
        except CorruptFrontier:
            return True
        one_is_lost = len(roots) < 2 and roots[0].transaction > 0
        return one_is_lost or _is_absurd(roots[0], file.size())


def _is_absurd(root: Root, size: int) -> bool:
    """Return whether a root claims so many pages beyond the end of the file that a list of them would not fit in it."""
    return root.last + 1 - size // root.page_size > size // _NUMBER.size


def _newest_root(file: File) -> Root:
    """Return the root of the last commit, even while another commit is being written."""
    root = file.roots()[0]
    while root != (again := file.roots()[0]):  # one of the two was being written
        root = again
    return root
