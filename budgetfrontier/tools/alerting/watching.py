"""The watch over a job: looks at it, notes which conditions have begun or ended, and has the sinks told.

The state is in a file of the job, which one watcher at a time holds: of two, the second leaves the look to the first.
An alert is written there before it is sent, and tried again at later looks until it is delivered or given up. So it is
sent at least once, however a watcher ends, and nothing that a sink does holds up the crawl, which has another process.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from budgetfrontier.core.units import format_time
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import alert_state
from budgetfrontier.reports.alert_state import AlertDelivery, AlertState
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.operators import Selection
from budgetfrontier.rules import alert_conditions
from budgetfrontier.rules.alert_conditions import AlertChange, Observed, RaisedAlert, TopSpender, TrapSuspect
from budgetfrontier.settings.alert_sinks import name_of
from budgetfrontier.settings.schema import AlertSettings, AlertSink
from budgetfrontier.storage.file_locks import LockFile
from budgetfrontier.storage.modes import make_folder
from budgetfrontier.storage.whole_files import atomic_file
from budgetfrontier.tools.alerting import alert_delivery
from budgetfrontier.tools.alerting.alert_delivery import NotDelivered
from budgetfrontier.tools.job_operator import JobOperator

TRIES = 6
"""Attempts to deliver an alert; the waits between them double."""
FIRST_WAIT = 30.0
"""Seconds between the first two attempts."""
LOG = "alerts.log"
"""The file in the folder `logs` of a job."""
_LOCK = "alerts.lock"
_MOST_DELIVERIES = 100  # that are kept once they are done
_MOST_WAITING = 1000  # beyond which the oldest are given up
_TOP_EVERY = 300.0  # seconds between two readings of the busiest queues
_SUSPECTS_EVERY = 900.0  # and of those that look like traps: seconds of processor time with a million queues
_MOST_SUSPECTS = 20


class Watch:
    """The watch over the job in a folder, whose frontier is at `path`. `say` prints a line for each change."""

    def __init__(
        self,
        job: Path,
        path: Path,
        *,
        say: Callable[[str], None] = lambda line: None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._job, self._path, self._say, self._environment = job, path, say, environment
        self._unsaved: AlertState | None = None
        """The state, if the disk had no room for it."""
        self._top: tuple[float, TopSpender | None] = 0.0, None
        self._suspects: tuple[float, Sequence[TrapSuspect]] = 0.0, ()

    def __repr__(self) -> str:
        return f"<Watch over {self._job}>"

    def look(self) -> list[AlertChange]:
        """Look at the crawl, and make the attempts that are due; return what has begun and ended.

        Nothing is done while another watcher looks. Raises FrontierError if the frontier cannot be read.
        """
        with self._alone() as alone:
            if not alone:
                return []
            with JobOperator(self._job, self._path) as operator:
                settings, crawl, seen = operator.settings.alerts, operator.settings.crawl, self._observed(operator)
            state = self._unsaved or alert_state.read(self._job) or AlertState()
            now, new = seen.standing.now, alert_conditions.sample(seen)
            state.samples = alert_conditions.sampled(settings, state.samples, new)
            past = state.samples if state.samples[-1] is new else [*state.samples, new]
            state.raised, changes = alert_conditions.look(settings, state.raised, past, seen)
            state.looked = now
            for change in changes:
                state.deliveries += _deliveries(settings, change)
                self._note(settings, change)
            self._save(state)
            if self._attempt(settings, crawl, state, now):
                self._save(state)
            return changes

    def waits(self) -> float | None:
        """Return the seconds until the next attempt is due; None if none is to be made."""
        state = self._unsaved or alert_state.read(self._job) or AlertState()
        due = [one.due for one in state.deliveries if one.done is None]
        return max(min(due) - time.time(), 0.0) if due else None

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the lock of the state within the block, if no other watcher has it."""
        file = LockFile(self._job / _LOCK, create=True)
        try:
            try:
                file.lock(0)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            file.close()

    def _observed(self, operator: JobOperator) -> Observed:
        head = operator.head()
        top, suspects = self._top_spender(operator), self._trap_suspects(operator)
        return Observed(head.standing, head.verdict, _free(self._job), top, suspects)

    def _top_spender(self, operator: JobOperator) -> TopSpender | None:
        if operator.settings.alerts.queue_share is None:
            return None
        now = time.time()
        if now - self._top[0] >= _TOP_EVERY:
            found = operator.busiest(now - alert_conditions.HOUR, now).queues
            total = sum(one.spent for one in found)
            first = max(found, key=lambda one: one.spent, default=None)
            top = None if first is None or not total else TopSpender(first.queue, first.spent / total, total)
            self._top = now, top
        return self._top[1]

    def _trap_suspects(self, operator: JobOperator) -> Sequence[TrapSuspect]:
        if operator.settings.alerts.trap is None:
            return ()
        now = time.time()
        if now - self._suspects[0] >= _SUSPECTS_EVERY:
            found = operator.traps(
                Selection([state for state in QueueState if state is not QueueState.RETIRED]), _MOST_SUSPECTS
            )
            suspects = [TrapSuspect(one.queue, one.score, one.evidence[0].text) for one in found]
            self._suspects = now, suspects
        return self._suspects[1]

    def _note(self, settings: AlertSettings, change: AlertChange) -> None:
        """Print a change, and write it to the log."""
        line = f"{format_time(change.time)} {'RAISED' if change.raised else 'OVER'} {change.condition}"
        line = f"{line} {change.about.level} {clean(change.about.text)}"
        self._say(line)
        if settings.log:
            with suppress(OSError):  # the sinks are told nevertheless
                make_folder(self._job / "logs", like=self._job)
                with (self._job / "logs" / LOG).open("a", encoding="utf-8", errors="replace") as file:
                    file.write(f"{line}\n")

    def _save(self, state: AlertState) -> None:
        done = [one for one in state.deliveries if one.done is not None][-_MOST_DELIVERIES:]
        waiting = [one for one in state.deliveries if one.done is None][-_MOST_WAITING:]
        state.deliveries = sorted([*done, *waiting], key=lambda one: one.time)
        self._unsaved = state
        with suppress(OSError):  # a full disk is what an alert may be about
            with atomic_file(self._job / alert_state.FILE) as file:
                file.write(msgspec.json.format(msgspec.json.encode(state), indent=1))
            self._unsaved = None

    def _attempt(self, settings: AlertSettings, crawl: str, state: AlertState, now: float) -> bool:
        """Make the attempts that are due, those of different sinks at once; return whether there were any."""
        by_sink: dict[str, list[AlertDelivery]] = {}
        for one in state.deliveries:
            if one.done is None and one.due <= now:
                by_sink.setdefault(one.sink, []).append(one)
        known = {name_of(sink): sink for sink in settings.sinks}
        threads = [
            threading.Thread(target=self._tell, args=(known.get(name), crawl, due), name=f"alerts to {name}")
            for name, due in by_sink.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return bool(threads)

    def _tell(self, sink: AlertSink | None, crawl: str, due: Sequence[AlertDelivery]) -> None:
        """Make the attempts for one sink, in order; after one that has failed, the others wait with it."""
        for one in due:
            if sink is None:
                one.error, one.done = "there is no such sink any more", time.time()
                continue
            one.attempts += 1
            try:
                alert_delivery.deliver(sink, alert_delivery.payload(crawl, str(self._job), one), self._environment)
            except NotDelivered as failure:
                one.error, one.due = str(failure), time.time() + FIRST_WAIT * 2 ** (one.attempts - 1)
                if failure.final or one.attempts >= TRIES:
                    one.done = time.time()
                for later in due[due.index(one) + 1 :]:
                    later.due = max(later.due, one.due)
                return
            one.error, one.done = "", time.time()


def send_test(sink: AlertSink, crawl: str, job: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send an alert of the condition `test` to a sink. Raises NotDelivered."""
    now = time.time()
    about = RaisedAlert(now, "good", "This is a test: alerts of this crawl arrive here.")
    delivery = AlertDelivery(
        id=uuid.uuid4().hex, sink=name_of(sink), condition="test", raised=True, time=now, about=about
    )
    alert_delivery.deliver(sink, alert_delivery.payload(crawl, job, delivery), environment)


def _deliveries(settings: AlertSettings, change: AlertChange) -> Iterator[AlertDelivery]:
    """Yield the deliveries of a change, to each sink that is told of its condition."""
    name = uuid.uuid4().hex
    for sink in settings.sinks:
        if not sink.only or change.condition.partition(":")[0] in sink.only:
            yield AlertDelivery(
                id=name,
                sink=name_of(sink),
                condition=change.condition,
                raised=change.raised,
                time=change.time,
                about=change.about,
                due=change.time,
            )


def _free(job: Path) -> dict[str, int]:
    """Return the free bytes of each disk that a job writes to, by the first of its folders on it."""
    found: dict[str, int] = {}
    disks = set[int]()
    for folder in (job / "frontier", job, job / "logs", job / "warcs"):
        with suppress(OSError):
            if (disk := folder.stat().st_dev) not in disks:
                disks.add(disk)
                found[os.fspath(folder)] = shutil.disk_usage(folder).free
    return found


def unreadable(error: FrontierError) -> str:
    """Return the line on a frontier that could not be read in one look."""
    return f"{format_time(time.time())} this look failed: {clean(str(error))}"
