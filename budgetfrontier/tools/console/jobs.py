"""A job that the console shows: where it is, and its last commit."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from budgetfrontier.core.model import CrawlState
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import metrics, over_time
from budgetfrontier.reports.alert_state import AlertFiles
from budgetfrontier.reports.metrics import MetricsReading
from budgetfrontier.reports.operators import CrawlOperator
from budgetfrontier.rules.forecasts import Forecast, Held
from budgetfrontier.settings.schema import AlertSettings
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console import missing_partitions
from budgetfrontier.tools.console.changes_since import Since, since
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.made_by_commands import CommandAnswers, MadeAnswer
from budgetfrontier.tools.console.sampling import Sample, Samples, read
from budgetfrontier.tools.console.scan_schedule import Scanned, Scans
from budgetfrontier.tools.console.steer_process import SteerLine, SteerOrder, of_entry
from budgetfrontier.tools.console.totals_history import OverTimeOfJob
from budgetfrontier.tools.job_operator import JobOperator
from budgetfrontier.tools.simulation.job_simulation import OVER

READ_AT_ONCE = 10_000
"""The most queues that a forecast reads when it is asked for, in 2 microseconds each; it takes a scan of more."""
_FRESH = 1.5  # seconds for which a sample is good
_LINE = 1 << 24  # bytes of a line
_decode = msgspec.json.Decoder(SteerLine).decode
_T = TypeVar("_T")


class Gone(FrontierError):
    """The files of the job are not there any more; the page shows it again once they are back."""


class Foreseen(NamedTuple):
    """Forecasts, and the time of the scan that they are as of; None: they are as of the last commit."""

    rows: list[Forecast]
    as_of: float | None


class ConsoleJob:
    """A job and its frontier, opened read-only. `name` is its part of the path, "" if it is the only one."""

    is_folder = True
    """Whether its files are on this machine, so that all pages are there."""

    def __init__(self, name: str, folder: Path, frontier: Path) -> None:
        self.name = name
        self.folder = folder
        self.path = frontier
        self.others: Sequence[ConsoleJob] = ()
        """The jobs of the same console, itself among them."""
        self.samples = Samples()
        self.scans = Scans(frontier)
        self.over_time = self._over_time()
        self.answers = CommandAnswers()
        self._reader: Reader | None = None
        self._file: tuple[int, int] | None = None
        self._opening = threading.Lock()
        self._crawl = ""

    @property
    def base(self) -> str:
        """The beginning of the paths of its pages."""
        return f"/{quote(self.name)}" if self.name else ""

    @property
    def slug(self) -> str:
        """Its name in the paths of the API, also if it is the only one."""
        return self.name or slug_of(self.folder.resolve().name)

    @property
    def title(self) -> str:
        """The name of the job for people: that of its folder."""
        return self.folder.resolve().name

    @property
    def place(self) -> str:
        """The path of its folder."""
        return str(self.folder.resolve())

    @property
    def words(self) -> list[str]:
        """The words that stand for it in commands."""
        return [str(self.folder)]

    @property
    def reader(self) -> Reader:
        """The reader of its frontier. Raises Gone, NewerSchema, CorruptFrontier."""
        return self.open_reader()

    def open_reader(self) -> Reader:
        """Return the reader of its frontier, and open it first if need be. Raises as `reader` does."""
        self._check()
        with self._opening:
            if self._reader is None:
                self._reader = Reader(self.path)
            return self._reader

    def _check(self) -> None:
        """Raise Gone if there is no frontier. Forget the readings of another one that was there before."""
        try:
            status = os.stat(self.path / "data.mdb")
        except OSError:
            raise Gone(f"{self.folder}: its frontier is not there any more; was the job moved or deleted?") from None
        file = status.st_dev, status.st_ino  # that of an open file is not given to another one
        with self._opening:
            if self._file not in (None, file):
                self.samples.clear()
                self.scans.clear()
                self.answers.clear()
                self.over_time = self._over_time()
            self._file = file

    def _over_time(self) -> OverTimeOfJob:
        return OverTimeOfJob(lambda since, now: self.look(lambda operator: operator.series(since, now)))

    def forecasts(self, view: View, scanned: Scanned | None) -> Foreseen:
        """Return when each bound would end the crawl, as of the commit that `view` is of, or of a scan.

        All of it is of one moment: the holdings of a few queues are read, those of more are as of a scan. After a
        change of settings, a scan before it does not count: another is asked for, and budgets are not known until then.
        """
        (rows,), now = self.over_time.series()
        counters, totals = view.counters(), view.summary()
        holds, as_of = None, None
        if counters.queues <= READ_AT_ONCE:
            holds = over_time.held(view)
        elif not totals.queued + totals.future:
            holds = Held(0, 0, 0.0, "")
        elif scanned is not None and scanned.scan.revision == counters.settings_revision:
            holds, totals, now = scanned.scan.held, scanned.scan.totals, scanned.when
            as_of = now
        else:
            self.scans.want(counters.settings_revision)
        limits = over_time.limits_left(view, self.path, now, totals)
        return Foreseen(over_time.forecast_rows(over_time.between(rows), totals, holds, limits, now=now), as_of)

    def lacks_scan(self) -> bool:
        """Return whether forecasts wait for a scan, which is asked for. O(1)."""
        with self.view() as view:
            counters = view.counters()
            waiting = counters.queued + counters.future
            latest = self.scans.want(counters.settings_revision)
        is_known = latest is not None and latest.scan.revision == counters.settings_revision
        return counters.queues > READ_AT_ONCE and waiting > 0 and not is_known and not self.scans.error

    def metrics_reading(self) -> MetricsReading:
        """Return what a scrape of the metrics reads of the frontier. Raises Gone, and as `metrics.read` does."""
        return metrics.read(self.open_reader())

    def from_command(self, command: str, *words: str) -> MadeAnswer:
        """Return the answer of a command on the job, a minute old at the most. Raises as `CommandAnswers.get` does."""
        made = self.answers.get(command, *self.words, *words)
        missing_partitions.tell(made.found.get("missing_partitions") or (), made.told)
        return made

    def scanned(self) -> Scanned | None:
        """Return the latest scan of the frontier that is there, and ask for another if it is old. Raises Gone."""
        self._check()
        return self.scans.want()

    @contextmanager
    def view(self) -> Iterator[View]:
        """Hold a snapshot of the last commit."""
        with self.reader.view() as view:
            yield view

    def sample(self) -> Sample:
        """Read the totals now, and keep them for the rates. O(1)."""
        with self.view() as view:
            sample = read(view, now=time.time())
        self.samples.add(sample)
        return sample

    def sample_now(self) -> Sample:
        """Return the totals as of the last second, or read them. Raises Gone even if there is a sample."""
        self._check()
        last = self.samples.last
        return last if last is not None and abs(time.time() - last.when) < _FRESH else self.sample()

    def look(self, read: Callable[[CrawlOperator], _T]) -> _T:
        """Return the result of `read` for this job."""
        return read(JobOperator(self.folder, self.path, reader=self.reader, brief=True))

    async def steer(self, order: SteerOrder) -> AsyncIterator[SteerLine]:
        """Carry an order out, and yield its progress; the last line has the result."""
        async for step in carried_out(order, self.path):
            yield step

    def outcome(self, step: SteerLine) -> SteerLine:
        """Return what came of a command that was in progress at its last line; that line if it still is."""
        entry = self.open_reader().answer(step.number) if step.number else None
        if entry is None:
            return step
        return SteerLine(error=entry.error) if entry.error else of_entry(entry, step.note)

    @property
    def why_no_simulation(self) -> str:
        """Why it cannot be simulated; "" if it can."""
        terminated = self.sample_now().totals.state is CrawlState.TERMINATED
        return OVER if terminated else ""

    @property
    def alert_files(self) -> AlertFiles | None:
        """The files of its alerts; None if it is not known where they are."""
        return AlertFiles.of_job(self.folder)

    @property
    def alert_settings(self) -> AlertSettings | None:
        """The settings of its alerts; None if they are not known."""
        return self.reader.settings.alerts

    def since(self, asked: SubmittedCommand, shown: SteerLine) -> Since:
        """Return the changes since the dry run of a command."""
        with self.view() as view:
            return since(view, asked, shown)

    @property
    def crawl(self) -> str:
        """The name of the crawl; "" if it cannot be read."""
        try:
            with self.view() as view:
                self._crawl = view.settings()[0].crawl
        except (FrontierError, OSError):
            pass
        return self._crawl

    def close(self) -> None:
        """Close the files."""
        self.answers.close()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


async def carried_out(order: SteerOrder, frontier: Path) -> AsyncIterator[SteerLine]:
    """Carry an order out in a process of its own, and yield its lines."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "budgetfrontier.tools.console.steer_process", str(frontier),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    step = SteerLine()
    try:
        process.stdin.write(msgspec.json.encode(order))
        process.stdin.close()
        async for line in process.stdout:
            yield (step := _decode(line))
        code = await process.wait()
        if code or not (step.effect is not None or step.entry or step.error):
            yield SteerLine(error=f"its process ended with code {code}; the console's log has more")
    finally:
        # A dry run can be ended at any time. A command goes on: it may be half-way through a stopped frontier.
        if process.returncode is None and order.dry_run:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


def slug_of(name: str) -> str:
    """Return the part of a path that stands for a name."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "job"


def named(folders: Sequence[tuple[Path, Path]]) -> list[ConsoleJob]:
    """Return jobs for pairs of a folder and its frontier; several are named after their folders."""
    if len(folders) == 1:
        return [ConsoleJob("", *folders[0])]
    wanted = [slug_of(folder.resolve().name) for folder, _ in folders]
    jobs: dict[str, ConsoleJob] = {}
    for name, (folder, frontier) in zip(wanted, folders, strict=True):
        unique, number = name, 2
        # /metrics is a page of all jobs, /api that of the API. A number must not make the name of another folder.
        while unique in jobs or unique in ("api", "metrics") or (unique != name and unique in wanted):
            unique, number = f"{name}-{number}", number + 1
        jobs[unique] = ConsoleJob(unique, folder, frontier)
    return list(jobs.values())
