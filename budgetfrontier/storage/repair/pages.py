"""The readable records of a damaged data file, page by page.

Leaves below a damaged page are found as the pages that are neither in another tree nor in the list of free pages.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.storage import keys
from budgetfrontier.storage.lmdb_pages import FREE, File, Gap, Lost, Record, Root, Trees, is_leaf
from budgetfrontier.storage.recognition import SHAPES


class Salvage:
    """The readable records of a data file, which stays open until `close`. The file must not be written meanwhile."""

    def __init__(self, data: Path) -> None:
        self._file = File(data)
        try:
            self._read_counts: dict[str, int] = {}
            self._leaves: dict[str, array[int]] = {}
            self._start()
            self._find_tables()
            self._find_orphans()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def records(self, table: str) -> Iterator[Record]:
        """Yield the readable records of a table without the sentinel: in order, except those below damaged pages."""
        self._read_counts[table] = 0
        for number in self._leaves[table]:
            for key, value in self._trees.records(table, number, self._trees.read(number)):
                self._read_counts[table] += 1
                if key != keys.SENTINEL:
                    yield key, value

    def is_frontier(self) -> bool:
        """Return whether the file has any record of a frontier."""
        return any(self._leaves[table] for table in (keys.META, keys.QUEUES, keys.PENDING, keys.SEEN))

    def missing(self) -> dict[str, int]:
        """Return the number of missing records of each table that was read, without tables that are complete."""
        missing = {table: self._entries.get(table, 0) - given for table, given in self._read_counts.items()}
        return {table: count for table, count in missing.items() if count > 0}

    def lacks(self, table: str) -> bool:
        """Return whether records of a table are or may be lost; call it after reading the table."""
        return table not in self._entries or table in self.missing()

    @property
    def lost(self) -> list[Lost]:
        """The losses; complete after all tables have been read."""
        return list(self._trees.lost)

    @property
    def transaction(self) -> int:
        """The number of the transaction that is read."""
        return self._trees.root.transaction

    def _start(self) -> None:
        """Start at the newest root with an intact tree of tables or list of free pages: each leads to all leaves."""
        roots = self._file.roots()
        for root in *roots, roots[0]:
            if self._begin(root):
                break
        if root != roots[0]:
            self._trees.lose(
                Lost("main", 0, "the tables of the last commit cannot be found: these are of the commit before")
            )

    def _begin(self, root: Root) -> bool:
        """Start at a root; return whether all leaves can be found from it."""
        self._trees = trees = Trees(self._file, root)
        tables = list(trees.tables())
        self._entries = {name: entries for name, entries, _ in tables}  # by table, according to its root
        self._roots = {name: table_root for name, _, table_root in tables}
        lists_tables = not trees.lost
        self._unused = self._free_pages()
        return lists_tables or self._unused is not None

    def _find_tables(self) -> None:
        for table in keys.TABLES:
            root = self._roots.get(table)
            if root is None:
                self._trees.lose(Lost(table, 0, "the root of the table is lost"))
                self._trees.gaps.append(Gap(table, b"", None))
            self._leaves[table] = array("Q", () if root is None else self._trees.walk(table, root))

    def _find_orphans(self) -> None:
        """Find the leaves below lost pages, and add them to their tables; impossible without the list of free pages."""
        trees = self._trees
        gaps = [gap for gap in trees.gaps if gap.table in SHAPES]
        if not gaps:
            return
        if self._unused is None:
            trees.lose(Lost(FREE, 0, "the list of free pages is damaged: pages below lost pages are lost"))
            return
        found: dict[str, list[tuple[bytes, int]]] = {}
        for number in range(2, len(trees.seen)):
            if trees.seen[number] or self._unused[number]:
                continue
            page = trees.read(number)
            if trees.unsound(page, number) or not is_leaf(page):
                continue
            table = self._table_of(number, page, gaps)
            if table is not None:
                trees.seen[number] = 1
                found.setdefault(table, []).append((next(trees.keys(page), b""), number))
        for table, leaves in found.items():
            self._leaves[table].extend(number for _, number in sorted(leaves))

    def _free_pages(self) -> bytearray | None:
        """Return for each page whether it is free; None if a list of free pages is damaged."""
        unused = bytearray(len(self._trees.seen))
        for numbers in self._trees.free_lists():
            for number in numbers:
                if number < len(unused):
                    unused[number] = 1
        return None if any(lost.table == FREE for lost in self._trees.lost) else unused

    def _table_of(self, number: int, page: bytes, gaps: list[Gap]) -> str | None:
        """Return the table in which a leaf fills a gap and matches the form of the records; None if there is none."""
        noted = dict(self._trees.lost)
        records = list(self._trees.records("", number, page))
        self._trees.lost = noted
        if not records:
            return None
        for table, low, high in gaps:
            if any(low <= key and (high is None or key < high) for key, _ in records) and any(
                SHAPES[table](key, value) for key, value in records
            ):
                return table
        return None
