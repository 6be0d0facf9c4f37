"""The space that a frontier takes on disk, and how far the slowest reader lags behind the writer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import lmdb

from budgetfrontier.storage import removed


class Space(NamedTuple):
    """The space of a frontier's files, and the lag of its oldest reader."""

    used: int
    """Bytes up to the last page of the data file, including free pages that are used again."""
    reader_lag: int
    """Commits since the oldest snapshot that is still read; 0 if none is. The file grows while it is held."""
    removed: int
    """Bytes of deleted records, kept for `undo`."""


def space(env: lmdb.Environment, path: Path) -> Space:
    """Return the space that the frontier at `path` takes, by its environment. O(readers, files of deleted records)."""
    last = env.info()["last_txnid"]
    lags = [0]
    for line in env.readers().splitlines():  # after a head: process, thread, snapshot ("-": none)
        fields = line.split()
        if len(fields) == 3 and fields[2].isdigit():
            lags.append(last - int(fields[2]))
    return Space((env.info()["last_pgno"] + 1) * env.stat()["psize"], max(lags), removed.size(path))
