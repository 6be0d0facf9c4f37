"""Reports of a running crawl, written by a separate process: with many queues, it would block the crawl."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from pathlib import Path

from budgetfrontier.reports import report_files

log = logging.getLogger("budgetfrontier.crawl")


async def write_reports(frontier: Path, folder: Path) -> None:
    """Write the reports on a frontier, as of its last commit, into a folder. Errors are logged, and not raised."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", report_files.__name__, frontier, folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is handled by this process alone
        )
    except OSError as e:
        log.warning("the reports were not written: %s", e)
        return
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        log.warning("the reports were not written: %s", errors.decode(errors="replace").strip().rpartition("\n")[2])
