"""What an environment takes on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import lmdb

    Transaction = lmdb.Transaction[bytes]

DATA = "data.mdb"


def live(txn: Transaction, tables: dict[str, Any]) -> dict[str, int]:
    """Bytes of the pages in use, by table; the file has free ones besides, which LMDB uses again."""
    found = {}
    for name, table in tables.items():
        stat = txn.stat(table)
        found[name] = stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
    return found


def file_size(folder: Path) -> int:
    """Bytes of the file."""
    return (folder / DATA).stat().st_size


def folder_size(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
