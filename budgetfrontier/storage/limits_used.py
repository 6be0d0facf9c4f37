"""The use of the limits on time and bytes by a crawl, over all its runs: a record of the cache beside it."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import NamedTuple

import lmdb

from budgetfrontier.errors import FrontierError
from budgetfrontier.storage.backup import CACHE
from budgetfrontier.storage.lmdb_env import check_files, opened_lmdb

TABLE, KEY = b"used", b"crawl"
_format = struct.Struct(">dQ")
_opening = threading.Lock()  # a process cannot open an environment twice


class Used(NamedTuple):
    """The seconds that a crawl has run, without pauses, and the bytes that it has downloaded."""

    seconds: float = 0.0
    size: int = 0


def encode_used(used: Used) -> bytes:
    """Return the value of the record."""
    return _format.pack(*used)


def decode_used(value: bytes | None) -> Used | None:
    """Return a decoded record; None if there is none, or if it cannot be read."""
    return Used(*_format.unpack(value)) if value is not None and len(value) == _format.size else None


def read_used(path: Path) -> Used | None:
    """Return how much of its limits the crawl at `path` has used, as of its last commit.

    None if that is not known: no `budgetfrontier crawl` has filled it, or its cache cannot be read from this process.
    """
    cache = path / CACHE
    try:
        if not (cache / "data.mdb").is_file() or not check_files(cache):
            return None
        with _opening, opened_lmdb(cache, readonly=True) as env, env.begin() as txn:
            return decode_used(txn.get(KEY, db=env.open_db(TABLE, txn, create=False)))
    except (lmdb.Error, FrontierError, OSError):
        return None
