"""The parts of a job that `top` reads for one screen. No snapshot is held between two screens."""

from __future__ import annotations

import time
from itertools import islice

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.reports.explain import explain
from budgetfrontier.reports.over_time import forecast_sentence
from budgetfrontier.reports.wrong_now import wrong_now
from budgetfrontier.rules.verdict import standstill, verdict
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.process import process
from budgetfrontier.storage.queue_listing import queues_by_id
from budgetfrontier.storage.standing import standing
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.sampling import read, with_fetched
from budgetfrontier.tools.console.scan_schedule import Scanned
from budgetfrontier.tools.console.top_controls import SORTS, Controls, Mode
from budgetfrontier.tools.console.top_view import Opened, Shown

URIS = 100
"""URIs that are read of an open queue."""
LISTED = 10
"""Queues in each list that is printed once."""


class JobReading:
    """The reading of one job, again and again."""

    def __init__(self, job: ConsoleJob) -> None:
        self._job = job
        self._explained = ("", "")
        self._page: tuple[object, list[int]] = (None, [])

    def read(self) -> Shown:
        """Return the totals, the verdict and the rates as of the last commit. O(1)."""
        job, now = self._job, time.time()
        with job.view() as view:
            sample = read(view, now=now)
            running = process(view, job.path)
            stands = standing(view, job.path, now=now, totals=sample.totals, running=running)
            title = view.settings()[0].crawl or job.title
            scanned = job.scans.latest
            found = job.forecasts(view, scanned)
        job.samples.add(sample)
        (rows,), _ = job.over_time.series()
        shown = Shown(
            title,
            now,
            sample,
            running,
            verdict(stands),
            rates=with_fetched(job.samples.rates(), stands.rate),
            series=list(rows),
        )
        shown.as_of = scanned.when if scanned else None
        shown.forecast = forecast_sentence(found.rows, standstill=standstill(stands), as_of=found.as_of)
        found_now = wrong_now(job.path, stands, scanned.scan.spend if scanned else None)
        shown.wrong = [problem.text for problem in found_now]
        shown.progress, shown.scan_error = job.scans.progress, job.scans.error
        return shown

    def rows(self, controls: Controls, limit: int) -> list[QueueRecord]:
        """Return the queues of the list from `controls.start` on, and note in `controls` which they are.

        The order is that of the latest scan; the rows are as of the last commit. O(limit) once an order was looked up.
        """
        scanned = self._job.scanned()
        controls.room = limit
        found: list[QueueRecord] = []
        if scanned is not None:
            ids = self._ids(scanned, controls, limit)
            if not ids and controls.start:  # beyond the end
                controls.start = max(controls.selected - 2 * limit, 0)
                ids = self._ids(scanned, controls, limit)
            with self._job.view() as view:
                found = list(queues_by_id(view, ids))
        controls.show([queue.queue for queue in found])
        return found

    def _ids(self, scanned: Scanned, controls: Controls, limit: int) -> list[int]:
        asked = (scanned.when, controls.sort, controls.filter, controls.start, limit)
        if self._page[0] != asked:
            ids, _ = scanned.columns.page(controls.sort, text=controls.filter, start=controls.start, limit=limit)
            self._page = (asked, ids)
        return self._page[1]

    def lists(self, scanned: Scanned) -> dict[str, list[QueueRecord]]:
        """Return the first queues of each order, without those with an amount of 0."""
        with self._job.view() as view:
            found = {
                sort: list(queues_by_id(view, scanned.columns.page(sort, text="", start=0, limit=LISTED)[0]))
                for sort in SORTS
            }
        return {sort: [queue for queue in rows if getattr(queue, sort)] for sort, rows in found.items()}

    def opened(self, controls: Controls) -> Opened | None:
        """Return the queue that is open, None if none is. It is explained when it is opened, and not again."""
        key = controls.key
        if controls.screen is not Mode.QUEUE:
            self._explained = ("", "")
            return None
        with self._job.view() as view:
            stored = view.find_queue(key)
            if stored is None:
                return Opened(None, [], "")
            queue = BudgetsInForce(view).show(stored)
            out = frozenset(view.leased_keys()) if queue.out else frozenset()
            pending = list(islice(view.pending(queue, URIS, out), URIS))
        if self._explained[0] != key:
            self._explained = (key, explain(self._job.reader, key, job=str(self._job.folder)).text())
        return Opened(queue, pending, self._explained[1])
