"""The verdict on a crawl in one sentence, and a list of what is wrong with it now."""

from __future__ import annotations

import shutil
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

from budgetfrontier.console.jobs import Job
from budgetfrontier.console.sampling import Sample
from budgetfrontier.console.scan_process import Scan
from budgetfrontier.model import CrawlState, Process, QueueState, Run
from budgetfrontier.reports.commands import start_command
from budgetfrontier.reports.format import counted, percent
from budgetfrontier.reports.idle_reason import idle_reason
from budgetfrontier.store import keys
from budgetfrontier.store.report import Report
from budgetfrontier.store.view import View
from budgetfrontier.units import format_duration, format_size

QUIET = 60.0
"""Seconds without a call of the frontier after which a process is said to hang: one at work calls every ten."""
_LITTLE = 1 << 30  # bytes of free disk
_RETIRED, _PENALTIES, _ONE_QUEUE = 0.2, 0.25, 0.5  # shares worth a line


class Verdict(NamedTuple):
    """The verdict: "good", "warn" or "bad", a sentence, and the command that would change it."""

    level: str
    text: str
    command: str = ""


def of(job: Job, view: View, sample: Sample, process: Process) -> Verdict:
    """Return the verdict as of a snapshot. O(1)."""
    totals = sample.totals
    running = totals.state in (CrawlState.RUNNING, CrawlState.PAUSING)
    if not process.alive and running:
        command = start_command(str(job.folder)) or "the program that opened it"
        return Verdict("bad", f"No process runs this crawl{_stopped(process.last_stop)}.", command)
    report = Report(
        crawl=job.crawl, generated=sample.when, state=totals.state, pause_reason=totals.pause_reason, totals=totals,
        queues=[],
    )  # fmt: skip
    overview: Any = SimpleNamespace(next_wake=_next_wake(view))
    reason = idle_reason(report, overview, now=time.time())
    if reason is not None:
        return Verdict("warn", f"Idle, because {reason}.")
    if (silent := _silent(process)) is not None:
        ago = format_duration(round(silent))
        return Verdict("bad", f"Process {process.pid} has not used its frontier for {ago}: it hangs.")
    leases = f", {counted(totals.in_process, 'lease')} out" if totals.in_process else ""
    return Verdict("good", f"The crawl is {totals.state}{leases}.")


def _stopped(run: Run | None) -> str:
    """Return how the last run ended."""
    if run is None or run.end is None or run.ended is None:
        return ""
    reason = f", {run.reason}" if run.reason else ""
    ago = format_duration(max(round(time.time() - run.ended), 0))
    return f"; the last one stopped {ago} ago ({run.end}{reason})"


def _silent(process: Process) -> float | None:
    """Return for how many seconds a process has not used its frontier, if that is long."""
    if process.last_call is None:
        return None
    seconds = time.time() - process.last_call
    return seconds if seconds > QUIET else None


def wrong(job: Job, sample: Sample, scan: Scan | None) -> list[str]:
    """Return what an operator should know, a sentence each."""
    totals, counts = sample.totals, sample.totals.queues
    found: list[str] = []
    queues = sum(counts.values()) or 1
    if (share := counts.get(QueueState.RETIRED, 0) / queues) > _RETIRED:
        found.append(f"{percent(share)} of the queues are RETIRED.")
    if totals.dead:
        found.append(f"{counted(totals.dead, 'dead letter')}: URIs that have failed for good.")
    if (free := shutil.disk_usage(job.path).free) < _LITTLE:
        found.append(f"Only {format_size(free)} of the disk are free.")
    if scan is not None and scan.spend.total:
        spend = scan.spend
        if (share := spend.penalties / spend.total) > _PENALTIES:
            found.append(f"{percent(share)} of what was spent are penalties for errors.")
        if spend.spenders > 1 and (share := spend.top[0].expenditure / spend.total) > _ONE_QUEUE:
            found.append(f"One queue, {spend.top[0].queue}, has spent {percent(share)} of the whole.")
    return found


def _next_wake(view: View) -> float | None:
    """Return the earliest wake time of a SNOOZED queue."""
    first = next(view.items(keys.SNOOZED), None)
    return None if first is None else float(keys.timed.unpack(first[0])[0])
