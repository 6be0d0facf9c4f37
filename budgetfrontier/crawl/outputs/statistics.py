"""progress-statistics.log, in Heritrix's columns: how the crawl went, line by line."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from budgetfrontier.crawl.outputs.files import GrowingFile
from budgetfrontier.crawl.outputs.logs import open_log
from budgetfrontier.model import QueueState, Summary

LEGEND = (
    "           timestamp  discovered      queued   downloaded       doc/s(avg)  KB/s(avg)   dl-failures   busy-thread"
    "   mem-use-KB  heap-size-KB   congestion   max-depth   avg-depth"
)
_WIDTHS = (12, 12, 13, 17, 11, 14, 14, 13, 14, 13, 12, 12)  # of the columns after the time; together as in the legend
_LEFT_OUT = (QueueState.RETIRED, QueueState.EXHAUSTED)  # their URIs are not among those queued


class Statistics:
    """The file, with its legend on top; goes on where it ended."""

    def __init__(self, path: Path) -> None:
        self.file: GrowingFile = open_log(path)
        if not self.file.size:
            self.file.write(LEGEND.encode() + b"\n")
        self._before = (0.0, 0, 0)

    def write(
        self, summary: Summary, *, elapsed: float, fetched: int, bytes: int, in_flight: int, failures: int
    ) -> None:
        """Write a line. `elapsed` (seconds), `fetched` and `bytes` are of this run; speeds since the line before, in
        brackets since the run began.
        """
        then, fetched_then, bytes_then = self._before
        self._before = (elapsed, fetched, bytes)
        queues = sum(summary.queues.get(state, 0) for state in QueueState if state not in _LEFT_OUT)
        columns = (
            summary.scheduled,
            summary.queued,
            summary.succeeded,
            f"{_speed(fetched - fetched_then, elapsed - then):.2f}({_speed(fetched, elapsed):.2f})",
            f"{_speed(bytes - bytes_then, elapsed - then) / 1024:.0f}({_speed(bytes, elapsed) / 1024:.0f})",
            failures,
            in_flight,
            _resident(),
            "-",
            "-",
            "-",
            round(summary.queued / queues) if queues else 0,
        )
        row = "".join(f" {value:>{width - 1}}" for value, width in zip(columns, _WIDTHS, strict=True))
        self.file.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}{row}\n".encode())


def _speed(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _resident() -> int | str:
    """Return the memory that this process has, in KiB; "-" where the system does not tell (it is Linux that does)."""
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") // 1024
    return "-"
