"""The statuses in a crawl log, counted as it grows: each page reads only the lines added since, and a bounded part."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

from budgetfrontier.tools.console.log_files import lines_from

LOG = "crawl.log"
AT_ONCE = 32 << 20
"""The most bytes of a log that are counted for one page, in about 0.3 s; the next page goes on there."""


class StatusCounts:
    """The counts of one log. It may be asked from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._counts: Counter[int] = Counter()
        self._read = self._size = 0

    def counted(self, folder: Path) -> tuple[Counter[int], float]:
        """Return the lines of the log in a folder by status, and the share of the log that is counted by now."""
        with self._lock:
            try:
                lines, end, self._size = lines_from(folder, LOG, self._read, AT_ONCE)
                if self._size < self._read:  # another log, or one that was truncated
                    self._clear()
                    lines, end, self._size = lines_from(folder, LOG, 0, AT_ONCE)
            except OSError:
                self._clear()
                return Counter(), 1.0
            self._read = end
            for line in lines:
                fields = line.split(None, 2)
                if len(fields) == 3 and fields[1].lstrip(b"-").isdigit():
                    self._counts[int(fields[1])] += 1
            return Counter(self._counts), min(self._read / self._size, 1.0) if self._size else 1.0
