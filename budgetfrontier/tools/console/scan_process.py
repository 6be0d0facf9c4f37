"""The scan of all queues, in a process of its own: `python -m budgetfrontier.tools.console.scan_process FRONTIER FD`.

It writes the columns to the file with that descriptor, and to its standard output a line of JSON for each step, the
last of which is the `Scan`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import msgspec

from budgetfrontier.core.model import QueueRecord, Summary
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.over_time import terms_of
from budgetfrontier.reports.overview import Overview, SpendDistribution
from budgetfrontier.reports.status_tables import CHOICES, Statuses, statuses_by
from budgetfrontier.reports.trap_list import Suspect, suspects
from budgetfrontier.rules.forecasts import Held, Holdings
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.group_listing import GroupsListed
from budgetfrontier.storage.quota_use import QuotaUse, fullest
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.columns import Builder, ColumnLayout

LISTED = 20
"""Queues in each list of the aggregates."""
FULLEST = 50
"""Quotas that are listed."""
ANSWERING = 100
"""Hosts that are listed by their answers, and kinds of errors."""
TRAPS_READ = 100
"""Queues whose URIs are read to find traps, about a second: `traps` reads more."""


class Scan(msgspec.Struct):
    """The result of a scan. `when` is the time of its snapshot."""

    when: float
    seconds: float
    layout: ColumnLayout
    spend: SpendDistribution
    longest: list[QueueRecord]
    waiting: list[tuple[int, int]]
    """The number of INACTIVE queues of each precedence."""
    held: Held
    """The holdings of all queues, for forecasts."""
    totals: Summary
    """The totals of the same snapshot."""
    groups: GroupsListed = msgspec.field(default_factory=GroupsListed)
    quotas: list[QuotaUse] = []
    """The fullest quotas."""
    answers: dict[str, Statuses] = {}
    """The answers of all queues: for each of `status_tables.CHOICES` those with most of it."""
    suspects: list[Suspect] = []
    """The queues that look like traps, of TRAPS_READ."""
    revision: int = 0
    """The revision of the settings that were in force."""


class ScanLine(msgspec.Struct, omit_defaults=True):
    """A line that the process writes: the share that is done, the result, or why there is none."""

    done: float = 0.0
    scan: Scan | None = None
    error: str = ""


def main(frontier: str, fd: int) -> None:
    """Scan a frontier, at a low priority: the engine needs the processor more."""
    os.nice(10)
    try:
        _say(ScanLine(scan=_scan(frontier, fd)))
    except (FrontierError, OSError) as e:
        _say(ScanLine(error=str(e)))


def _scan(frontier: str, fd: int) -> Scan:
    started, overview, holdings = time.monotonic(), Overview(LISTED), Holdings()
    with open(fd, "wb") as file:
        total, revision = 1, 0

        def note(passed: int) -> None:
            _say(ScanLine(done=min(passed / total, 1.0) / 2))

        columns = Builder(file, note)
        with Reader(frontier) as reader:

            def passing(view: View, queues: Iterator[QueueRecord]) -> Iterator[QueueRecord]:
                nonlocal total, revision
                total, revision = view.counters().queues or 1, view.counters().settings_revision
                return columns.through(holdings.through(queues, terms_of(view), group_listing.terms_of(view)))

            head = overview.read(reader, passing)
            with reader.view() as view:
                quotas = fullest(view)[:FULLEST]
                answers = statuses_by(view, None, CHOICES, limit=ANSWERING)
                traps = suspects(view, None, limit=None, now=head.generated, read=TRAPS_READ)
        layout = columns.write(lambda share: _say(ScanLine(done=0.5 + share / 2)))
    spend, longest = overview.spend(), overview.longest(LISTED)
    waiting = overview.inactive_by_precedence()
    return Scan(
        head.generated, time.monotonic() - started, layout, spend, longest, waiting, holdings.held, head.totals,
        head.groups, quotas, answers, traps, revision,
    )  # fmt: skip


def _say(step: ScanLine) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(step) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one, which ends it
    main(sys.argv[1], int(sys.argv[2]))
