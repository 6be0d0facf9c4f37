"""What can be read of a damaged data file, page by page.

Leaves below a damaged page are found again: they are neither in another tree nor in the list of free pages.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.store import keys
from budgetfrontier.store.lmdb_pages import FREE, File, Gap, Lost, Record, Root, Trees, is_leaf
from budgetfrontier.store.recognition import SHAPES


class Salvage:
    """What can be read of a data file, which stays open until it is closed. Nobody may write it meanwhile."""

    def __init__(self, data: Path) -> None:
        self._file = File(data)
        try:
            self._given: dict[str, int] = {}
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
        """Yield the records of a table that can be read, in order but for those found again; without the sentinel."""
        self._given[table] = 0
        for number in self._leaves[table]:
            for key, value in self._trees.records(table, number, self._trees.read(number)):
                self._given[table] += 1
                if key != keys.SENTINEL:
                    yield key, value

    def is_frontier(self) -> bool:
        """Tell whether the file holds anything of a frontier."""
        return any(self._leaves[table] for table in (keys.META, keys.QUEUES, keys.PENDING, keys.SEEN))

    def missing(self) -> dict[str, int]:
        """Return how many records were missing of each table that was read, if any were."""
        missing = {table: self._entries.get(table, 0) - given for table, given in self._given.items()}
        return {table: count for table, count in missing.items() if count > 0}

    def lacks(self, table: str) -> bool:
        """Tell whether records of a table are lost, or may be; ask once it has been read."""
        return table not in self._entries or table in self.missing()

    @property
    def lost(self) -> list[Lost]:
        """What cannot be read; complete once all tables have been gone through."""
        return list(self._trees.lost)

    @property
    def transaction(self) -> int:
        """The number of the last transaction that can be read."""
        return self._trees.root.transaction

    def _start(self) -> None:
        """Begin at the newest root from which all can be found: by its tree of tables, or its list of free pages."""
        roots = self._file.roots()
        for root in *roots, roots[0]:
            if self._begin(root):
                break
        if root != roots[0]:
            self._trees.lose(
                Lost("main", 0, "the tables as of the last commit cannot be found: these are of the one before")
            )

    def _begin(self, root: Root) -> bool:
        """Begin at a root, and return whether all can be found from it."""
        self._trees = trees = Trees(self._file, root)
        tables = list(trees.tables())
        self._entries = {name: entries for name, entries, _ in tables}  # that each table should hold
        self._roots = {name: table_root for name, _, table_root in tables}
        found = not trees.lost
        self._unused = self._free_pages()
        return found or self._unused is not None

    def _find_tables(self) -> None:
        for table in keys.TABLES:
            root = self._roots.get(table)
            if root is None:
                self._trees.lose(Lost(table, 0, "the root of the table is lost"))
                self._trees.gaps.append(Gap(table, b"", None))
            self._leaves[table] = array("Q", () if root is None else self._trees.walk(table, root))

    def _find_orphans(self) -> None:
        """Find the leaves below lost pages, and add them to their tables; not without a list of the pages in use."""
        trees = self._trees
        gaps = [gap for gap in trees.gaps if gap.table in SHAPES]
        if not gaps:
            return
        if self._unused is None:
            trees.lose(Lost(FREE, 0, "the list of free pages is damaged: what is below lost pages is lost"))
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
        """Return a mark for each page that is free; None if that cannot be known."""
        unused = bytearray(len(self._trees.seen))
        for numbers in self._trees.free_lists():
            for number in numbers:
                if number < len(unused):
                    unused[number] = 1
        return None if any(lost.table == FREE for lost in self._trees.lost) else unused

    def _table_of(self, number: int, page: bytes, gaps: list[Gap]) -> str | None:
        """Return the table that a leaf belongs to: it fills a gap there, and its records look like that table's."""
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
