"""progress-statistics.log: the progress of the crawl over time, with Heritrix's columns."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from budgetfrontier.core.model import QueueState, Summary
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile
from budgetfrontier.crawler.outputs.logs import open_log

LEGEND = (
    "           timestamp  discovered      queued   downloaded       doc/s(avg)  KB/s(avg)   dl-failures   busy-thread"
    "   mem-use-KB  heap-size-KB   congestion   max-depth   avg-depth"
)
_WIDTHS = (12, 12, 13, 17, 11, 14, 14, 13, 14, 13, 12, 12)  # of the columns after the timestamp, matching the legend
_LEFT_OUT = (QueueState.INELIGIBLE, QueueState.RETIRED, QueueState.EXHAUSTED)  # their URIs are not counted as queued


class Statistics:
    """The log file, with a legend as its first line. An existing one is continued."""

    def __init__(self, path: Path) -> None:
        self.file: GrowingFile = open_log(path, head=LEGEND.encode() + b"\n")
        self._before = (0.0, 0, 0)

    def write(
        self, summary: Summary, *, elapsed: float, fetched: int, bytes: int, in_flight: int, failures: int
    ) -> None:
        """Write a line. `elapsed` (seconds), `fetched` and `bytes` count this run only.

        Rates are those since the previous line, with the averages over the run in parentheses.
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
    """Return the resident memory of this process in KiB; "-" on systems other than Linux, which do not provide it."""
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") // 1024
    return "-"
