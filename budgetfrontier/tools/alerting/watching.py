"""The watch over a job: looks at it, notes which conditions have begun or ended, and has the sinks told.

The state is in a file of the job, which one watcher at a time holds: of two, the second leaves the look to the first.
An alert is written there before it is sent, and tried again at later looks until it is delivered or given up. So it is
sent at least once, however a watcher ends, and nothing that a sink does holds up the crawl, which has another process.
Each sink is told by a thread of its own, which outlasts the look: a slow sink delays neither looks nor other sinks.
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
from queue import Empty, SimpleQueue

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
PATIENCE = 1.0
"""Seconds for which a look that is one of many waits for the sinks."""
LOG = "alerts.log"
"""The file in the folder `logs` of a job."""
_LOCK = "alerts.lock"
_MOST_DELIVERIES = 100  # that are kept once they are done
_MOST_WAITING = 1000  # beyond which the oldest are given up
_LONGEST_HOLD = 300.0  # seconds for which an alert that is being sent is left to the watcher that sends it
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
        self._senders: dict[str, threading.Thread] = {}
        """The threads that tell sinks, by their names."""
        self._tried: SimpleQueue[AlertDelivery] = SimpleQueue()
        """What came of attempts, to be written down."""
        self._top: tuple[float, TopSpender | None] = 0.0, None
        self._suspects: tuple[float, Sequence[TrapSuspect]] = 0.0, ()

    def __repr__(self) -> str:
        return f"<Watch over {self._job}>"

    def look(self, patience: float | None = None) -> list[AlertChange]:
        """Look at the crawl, and begin the attempts that are due; return what has begun and ended.

        Attempts are waited for, but no longer than `patience`: what comes of others is written down by the next look.
        Nothing is done while another watcher looks. Raises FrontierError if the frontier cannot be read.
        """
        with self._alone() as alone:
            if not alone:
                return []
            with JobOperator(self._job, self._path) as operator:
                settings, crawl, seen = operator.settings.alerts, operator.settings.crawl, self._observed(operator)
            state = self._unsaved or alert_state.read(self._job) or AlertState()
            if patience is None:
                self._wait(None)
            self._write_down(state)
            now, new = seen.standing.now, alert_conditions.sample(seen)
            state.samples = alert_conditions.sampled(settings, state.samples, new)
            past = state.samples if state.samples[-1] is new else [*state.samples, new]
            state.raised, changes = alert_conditions.look(settings, state.raised, past, seen)
            state.looked = now
            for change in changes:
                state.deliveries += _deliveries(settings, change)
                self._note(settings, change)
            begun = self._begun(settings, crawl, state, now)
            self._save(state)
            for thread in begun:
                thread.start()
            self._wait(patience)
            if self._write_down(state):
                self._save(state)
            return changes

    def waits(self) -> float | None:
        """Return the seconds until the next attempt is due; None if none is to be made, or its sink is being told."""
        state = self._unsaved or alert_state.read(self._job) or AlertState()
        due = [one.due for one in state.deliveries if one.done is None and one.sink not in self._senders]
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

    def _begun(self, settings: AlertSettings, crawl: str, state: AlertState, now: float) -> list[threading.Thread]:
        """Return threads that make the attempts that are due, one for each sink, and mark these as being made."""
        known, begun = {name_of(sink): sink for sink in settings.sinks}, list[threading.Thread]()
        for name, due in _due(state, now).items():
            if name in self._senders:
                continue
            sink = known.get(name)
            if sink is None:
                for one in due:
                    one.error, one.done = "there is no such sink any more", now
                continue
            copies = [msgspec.structs.replace(one) for one in due]
            thread = threading.Thread(target=self._tell, args=(sink, crawl, copies), name=f"alerts to {name}")
            self._senders[name] = thread
            begun.append(thread)
            for one in due:
                one.due = now + min(FIRST_WAIT + sink.timeout * len(due), _LONGEST_HOLD)
        return begun

    def _tell(self, sink: AlertSink, crawl: str, due: Sequence[AlertDelivery]) -> None:
        """Make the attempts for one sink, in order; after one that has failed, the others wait with it."""
        for number, one in enumerate(due, 1):
            one.attempts += 1
            try:
                alert_delivery.deliver(sink, alert_delivery.payload(crawl, str(self._job), one), self._environment)
            except NotDelivered as failure:
                one.error, one.due = str(failure), time.time() + FIRST_WAIT * 2 ** (one.attempts - 1)
                if failure.final or one.attempts >= TRIES:
                    one.done = time.time()
                self._tried.put(one)
                for later in due[number:]:
                    later.due = max(later.due, one.due)
                    self._tried.put(later)
                return
            one.error, one.done = "", time.time()
            self._tried.put(one)

    def _wait(self, patience: float | None) -> None:
        """Wait until no sink is being told, at most for so many seconds."""
        deadline = None if patience is None else time.monotonic() + patience
        for thread in self._senders.values():
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))

    def _write_down(self, state: AlertState) -> bool:
        """Take what came of attempts into the state; return whether there were any."""
        self._senders = {name: thread for name, thread in self._senders.items() if thread.is_alive()}
        by_id, some = {(one.id, one.sink): one for one in state.deliveries}, False
        with suppress(Empty):
            while True:
                tried = self._tried.get_nowait()
                one = by_id.get((tried.id, tried.sink))
                if one is not None:
                    one.attempts, one.due, one.done, one.error = tried.attempts, tried.due, tried.done, tried.error
                some = True
        return some


def _due(state: AlertState, now: float) -> dict[str, list[AlertDelivery]]:
    """Return the deliveries that are due, by sink: those of conditions that wait for no further attempt come first.

    Of one condition, a sink is told in the order of time: the end waits until the begin is delivered or given up.
    """
    found: dict[str, list[AlertDelivery]] = {}
    held: dict[tuple[str, str], float] = {}
    tried = set[tuple[str, str]]()
    for one in state.deliveries:
        if one.done is not None:
            continue
        about = one.sink, one.condition
        one.due = max(one.due, held.get(about, 0.0))
        if one.attempts:
            tried.add(about)
        if one.due > now:
            held[about] = one.due
        else:
            found.setdefault(one.sink, []).append(one)
    for due in found.values():
        due.sort(key=lambda one: (one.sink, one.condition) in tried)
    return found


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
