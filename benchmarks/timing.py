"""Wall and processor time of stretches of work, single calls, and the memory of this process."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

MIB = 1 << 20


class Stopwatch:
    """Started when made. The targets are wall time; processor time tells how much of it the machine took away."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self._wall

    def rates(self, count: int) -> dict[str, float]:
        """`count` things per second of wall time, and per second of processor time."""
        wall, cpu = self.seconds(), time.process_time() - self._cpu
        return {"per_second": count / wall, "per_cpu_second": count / cpu}


class Calls:
    """The durations of calls, in seconds, those in which a commit fell apart from the others.

    Whether one did is asked of the environment, before and after each call and outside its time: `commits` gives the
    number of the last one.
    """

    def __init__(self, commits: Callable[[], int]) -> None:
        self._commits = commits
        self._last = commits()
        self.plain, self.committing = array("d"), array("d")

    def add(self, seconds: float) -> None:
        """Count a call that has just ended."""
        last = self._commits()
        (self.plain if last == self._last else self.committing).append(seconds)
        self._last = last

    def figures(self) -> dict[str, float]:
        """Calls a second, and quantiles of both kinds in seconds; those of no calls are left out."""
        count, seconds = len(self.plain) + len(self.committing), sum(self.plain) + sum(self.committing)
        found = {"calls": len(self.plain), "commits": len(self.committing), "per_second": count / seconds}
        for kind, samples in (("call", self.plain), ("commit", self.committing)):
            if samples:
                found |= {f"{kind}_p50": quantile(samples, 0.5), f"{kind}_p99": quantile(samples, 0.99)}
                found[f"{kind}_max"] = max(samples)
        return found


def quantile(samples: Sequence[float], part: float) -> float:
    """The least sample that is not below `part` of all."""
    return sorted(samples)[max(math.ceil(part * len(samples)), 1) - 1]


def anonymous_memory() -> int:
    """Bytes of this process that no file backs. LMDB's map is the page cache's and not counted; its dirty pages are."""
    return _of_this_process("status", "RssAnon") * 1024


def written() -> int:
    """Bytes that this process has given to the system to write, since it began."""
    return _of_this_process("io", "wchar")


def _of_this_process(file: str, name: str) -> int:
    for line in Path("/proc/self", file).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise OSError(f"this kernel does not report {name}")
