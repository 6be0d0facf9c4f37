"""When a scan of all queues runs: for a page, once a minute or after a change of settings, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from budgetfrontier.errors import in_words
from budgetfrontier.tools.console.columns import Columns
from budgetfrontier.tools.console.scan_process import Scan, ScanLine

EVERY = 60.0
"""Seconds between the beginnings of two scans, at least, while settings do not change."""
_REST = 1
"""The times as long as a scan took that pass after it, at least, if settings have changed since."""
FRESH = 2 * EVERY
"""Seconds for which a scan stands for what it takes a pass over all queues to know."""
_decode = msgspec.json.Decoder(ScanLine).decode
_LINE = 1 << 24  # bytes of a line of the process


class Scanned:
    """A finished scan with its columns."""

    def __init__(self, scan: Scan, columns: Columns) -> None:
        self.when = scan.when
        self.scan = scan
        self.columns = columns

    @property
    def is_fresh(self) -> bool:
        """Whether it is as recent as one for which nobody has waited, also while the next one runs."""
        return 0 <= time.time() - self.when < FRESH


class Scans:
    """The scans of one job. `latest` is the last one that was finished; `wanted` has the next one begin when it may."""

    def __init__(self, frontier: Path) -> None:
        self._frontier = frontier
        self.latest: Scanned | None = None
        self.progress: float | None = None
        """The share of the running scan that is done; None if none is running."""
        self.error = ""
        """Why the last scan failed."""
        self._wanted = self._changed = False
        self._begun = -EVERY
        self._cleared = 0

    def want(self, revision: int | None = None) -> Scanned | None:
        """Ask for a scan that is not older than EVERY, nor than the settings in force, of this revision if it is given.

        Return the latest there is. From any thread.
        """
        latest = self.latest
        if latest is not None and revision is not None and latest.scan.revision != revision:
            self._wanted = self._changed = True
        if latest is None or time.time() - latest.when >= EVERY:
            self._wanted = True
        return latest

    def clear(self) -> None:
        """Drop the latest scan, and the result of one that runs: they are of another frontier. From any thread."""
        self._cleared += 1
        self.latest, self.error, self._begun = None, "", -EVERY

    @property
    def is_due(self) -> bool:
        """Whether a scan should begin now."""
        if not self._wanted or self.progress is not None:
            return False
        took = self.latest.scan.seconds if self.latest is not None and self._changed else EVERY
        return time.monotonic() - self._begun >= min(EVERY, (1 + _REST) * took)

    async def run(self) -> None:
        """Scan once. `error` has the refusal of the system, of a temporary file for example."""
        self._wanted = self._changed = False
        self._begun, self.progress = time.monotonic(), 0.0
        try:
            await self._run()
        except OSError as e:
            self.error = f"the scan failed: {in_words(e)}"
        finally:
            self.progress = None

    async def _run(self) -> None:
        cleared = self._cleared
        with tempfile.TemporaryFile(prefix="budgetfrontier-") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "budgetfrontier.tools.console.scan_process",
                str(self._frontier), str(file.fileno()),
                pass_fds=(file.fileno(),), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                limit=_LINE,
            )  # fmt: skip
            try:
                assert process.stdout is not None
                async for line in process.stdout:
                    step = _decode(line)
                    self.progress = max(step.done, self.progress or 0.0)
                    if self._cleared != cleared:
                        continue
                    self.error = step.error
                    if step.scan is not None:
                        self.latest = Scanned(step.scan, Columns(file, step.scan.layout))
                if await process.wait() and self._cleared == cleared:
                    self.error = f"the scan ended with code {process.returncode}"
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
