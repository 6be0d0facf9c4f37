"""Wall and processor time of one stretch of work, and the memory of this process."""

from __future__ import annotations

import time
from pathlib import Path


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


def anonymous_memory() -> int:
    """Bytes of this process that no file backs. LMDB's map is the page cache's and not counted; its dirty pages are."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("this kernel does not report RssAnon")
