"""The size of an environment on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]

DATA = "data.mdb"


def live(txn: Transaction, tables: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of the pages in use, by table. The file also has free pages, which LMDB reuses."""
    found = {}
    for name, table in tables.items():
        stat = txn.stat(table)
        found[name] = stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
    return found


def file_size(folder: Path) -> int:
    """Return the bytes of the file."""
    return (folder / DATA).stat().st_size


def folder_size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
