"""The space that a frontier takes on disk, and how far the slowest reader lags behind the writer."""

from __future__ import annotations

from typing import NamedTuple

import lmdb


class Space(NamedTuple):
    """The space of a frontier's files, and the lag of its oldest reader."""

    used: int
    """Bytes up to the last page of the data file, including free pages that are used again."""
    reader_lag: int
    """Commits since the oldest snapshot that is still read; 0 if none is. The file grows while it is held."""


def space(env: lmdb.Environment) -> Space:
    """Return the space that a frontier takes, by its environment. O(readers)."""
    last = env.info()["last_txnid"]
    lags = [0]
    for line in env.readers().splitlines():  # after a head: process, thread, snapshot ("-": none)
        fields = line.split()
        if len(fields) == 3 and fields[2].isdigit():
            lags.append(last - int(fields[2]))
    return Space((env.info()["last_pgno"] + 1) * env.stat()["psize"], max(lags))
