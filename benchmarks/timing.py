"""Measurement of wall and processor time, of single calls, and of the memory of this process."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

MIB = 1 << 20


class Stopwatch:
    """A stopwatch that starts when it is created.

    Targets are wall time; processor time shows how much of it was lost.
    """

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """Return the wall time since the start."""
        return time.perf_counter() - self._wall

    def rates(self, count: int) -> dict[str, float]:
        """Return `count` per second of wall time, and per second of processor time."""
        wall, cpu = self.seconds(), time.process_time() - self._cpu
        return {"per_second": count / wall, "per_cpu_second": count / cpu}


class Calls:
    """The durations of calls, in seconds; calls during which a commit took place are kept apart.

    `commits` returns the number of the last commit; it is called before and after each call, outside its time.
    """

    def __init__(self, commits: Callable[[], int]) -> None:
        self._commits = commits
        self._last = commits()
        self.plain, self.committing = array("d"), array("d")

    def add(self, seconds: float) -> None:
        """Add a call that has just ended."""
        last = self._commits()
        (self.plain if last == self._last else self.committing).append(seconds)
        self._last = last

    def figures(self) -> dict[str, float]:
        """Return calls per second, and quantiles of both kinds in seconds; a kind without calls is left out."""
        count, seconds = len(self.plain) + len(self.committing), sum(self.plain) + sum(self.committing)
        found = {"calls": len(self.plain), "commits": len(self.committing), "per_second": count / seconds}
        for kind, samples in (("call", self.plain), ("commit", self.committing)):
            if samples:
                found |= {f"{kind}_p50": quantile(samples, 0.5), f"{kind}_p99": quantile(samples, 0.99)}
                found[f"{kind}_max"] = max(samples)
        return found


def quantile(samples: Sequence[float], part: float) -> float:
    """Return the smallest sample that is not exceeded by at least a share `part` of all."""
    return sorted(samples)[max(math.ceil(part * len(samples)), 1) - 1]


def anonymous_memory() -> int:
    """Return the anonymous memory of this process in bytes. LMDB's map is not counted, but its dirty pages are."""
    return _of_this_process("status", "RssAnon") * 1024


def written() -> int:
    """Return the bytes that this process has written so far.

    Each page of a frontier's file is written once a commit, and synced. What the kernel counts as `write_bytes` is more
    where its page cache has large folios: all of a folio for one page of it, of which the disk gets the page alone.
    """
    return _of_this_process("io", "wchar")


def _of_this_process(file: str, name: str) -> int:
    for line in Path("/proc/self", file).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"this kernel does not report {name}")
