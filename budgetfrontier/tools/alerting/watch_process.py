"""The watch over a running crawl: `python -m budgetfrontier.tools.alerting.watch_process JOB`, a process of its own.

It ends after the crawl, which is at the other end of its standard input: also if that is killed. Then it looks a last
time, so that the end of a crawl, or its death, is told. What is not delivered by then is tried again without the
crawl's standard error, so that whoever reads that until its end goes on.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from budgetfrontier.core.units import say_duration
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage.lock import lock_holder
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.alerting.watching import PATIENCE, Watch, unreadable, watched_job

WAITED_FOR = 30.0
"""Seconds that a crawl waits at its end for the delivery of its last alerts."""
LAST_ATTEMPTS = 120.0
"""Seconds for which attempts to deliver are repeated after the end of a crawl."""
_RELEASED = 5.0  # seconds in which the files of a process that has ended are closed
_LAST_PATIENCE = WAITED_FOR - _RELEASED  # seconds for which the last look waits for the sinks


class WatchProcess:
    """The process that watches a job, beside the crawl of this process. `warn` prints a line."""

    def __init__(self, job: Path, *, warn: Callable[[str], None]) -> None:
        self._job, self._warn = job, warn
        self._process: subprocess.Popen[bytes] | None = None

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Start the process; it goes on after the block, until `end`."""
        words = [sys.executable, "-m", __name__, os.fspath(self._job)]
        try:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is handled by the crawl alone
            )
        except OSError as error:
            self._warn(f"no alerts are sent: {error}")
        yield

    def end(self) -> None:
        """Let the process look a last time, now that the frontier is closed, and wait for it a while."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(WAITED_FOR)
        except subprocess.TimeoutExpired:
            longest = say_duration(LAST_ATTEMPTS)
            self._warn(f"alerts are not delivered yet: process {process.pid} goes on trying, for {longest} at most")
        except KeyboardInterrupt:
            process.kill()
            process.wait()
        if process.returncode:
            self._warn(f"the process for alerts ended with exit code {process.returncode}")


def main(job: Path) -> None:
    """Watch the job in a folder until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # they may go to all processes of a service
        signal.signal(number, signal.SIG_IGN)
    path = job / "frontier"
    watch = Watch(watched_job(job, path), warn=lambda line: print(line, file=sys.stderr, flush=True))
    with Reader(path) as reader:
        every = reader.settings.alerts.every
    _look(watch, PATIENCE)
    while not _has_ended(every if (due := watch.waits()) is None else min(every, due)):
        _look(watch, PATIENCE)
    deadline = time.monotonic() + _RELEASED
    while lock_holder(path) is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    _look(watch, _LAST_PATIENCE)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    _look(watch)
    deadline = time.monotonic() + LAST_ATTEMPTS
    while (due := watch.waits()) is not None and time.monotonic() + due < deadline:
        time.sleep(due)
        _look(watch)


def _look(watch: Watch, patience: float | None = None) -> None:
    try:
        watch.look(patience)
    except FrontierError as error:
        print(unreadable(error), file=sys.stderr, flush=True)


def _has_ended(seconds: float) -> bool:
    """Wait until the standard input has ended; return whether it has, at the latest after so many seconds."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and not os.read(0, 1)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(Path(sys.argv[1]))
