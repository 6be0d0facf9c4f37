"""The watch over a crawl: it notes which conditions have begun or ended, and sends alerts to the sinks.

The state is in a file, which one watcher at a time holds: of two, the second leaves the look to the first. An alert is
written there before it is sent, and tried again at later looks until it is delivered or given up. So it is sent at
least once, however a watcher ends, and nothing that a sink does holds up the crawl, which has another process. Each
sink is told by a thread of its own, which outlasts the look: a slow sink delays neither looks nor other sinks.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

import msgspec

from budgetfrontier.core.units import format_time
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import alert_state
from budgetfrontier.reports.alert_state import AlertDelivery, AlertFiles, AlertState
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.operators import CrawlOperator, NoSuchQueue, Selection
from budgetfrontier.reports.over_time import between
from budgetfrontier.rules import alert_conditions
from budgetfrontier.rules.alert_conditions import (
    HOUR,
    AlertChange,
    CrawlSample,
    Observed,
    RaisedAlert,
    TopSpender,
    TrapSuspect,
    Unanswered,
)
from budgetfrontier.rules.verdict import Standing
from budgetfrontier.settings import Settings
from budgetfrontier.settings.alert_sinks import name_of
from budgetfrontier.settings.redaction import without_passwords
from budgetfrontier.settings.schema import AlertSettings, AlertSink
from budgetfrontier.storage.disks import free_by_disk
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
_MOST_DELIVERIES = 100  # that are kept once they are done
_MOST_WAITING = 1000  # beyond which the oldest are given up
_LONGEST_HOLD = 300.0  # seconds for which an alert that is being sent is left to the watcher that sends it
_LONGEST_WAIT = FIRST_WAIT * 2**TRIES  # one that is due later than in so long is due now: the clock was set back
_TOP_EVERY = 300.0  # seconds between two readings of the busiest queues
_SUSPECTS_EVERY = 900.0  # and of those that look like traps: seconds of processor time with a million queues
_MOST_SUSPECTS = 20
_PAST_EVERY, _PARTS = 60.0, 60  # seconds between the samples of the hour before a first look, and their number


class WatchedCrawl(NamedTuple):
    """A crawl that is watched, and how each look at it begins."""

    job: str
    """The words that stand for it in commands."""
    files: AlertFiles
    opened: Callable[[], AbstractContextManager[CrawlOperator]]
    folders: Sequence[Path] = ()
    """The folders whose disks are watched."""
    settings: Settings | None = None
    """The settings that name conditions and sinks; None: those of the crawl, at each look."""


def watched_job(job: Path, path: Path) -> WatchedCrawl:
    """Return the job in a folder, whose frontier is at `path`, as a crawl that is watched."""
    folders = (job / "frontier", job, job / "logs", job / "warcs")
    return WatchedCrawl(os.fspath(job), AlertFiles.of_job(job), lambda: JobOperator(job, path), folders)


class Watch:
    """The watch over a crawl. `say` prints a line for each change, `warn` one about the file of the state."""

    def __init__(
        self,
        crawl: WatchedCrawl,
        *,
        say: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] = lambda line: None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._crawl, self._files, self._environment = crawl, crawl.files, environment
        self._say, self._warn = say, warn
        self._unsaved: AlertState | None = None
        """The state, if the disk had no room for it."""
        self._senders: dict[str, threading.Thread] = {}
        """The threads that tell sinks, by their names."""
        self._tried: SimpleQueue[AlertDelivery] = SimpleQueue()
        """What came of attempts, to be written down."""

    def look(self, patience: float | None = None) -> list[AlertChange]:
        """Look at the crawl, and begin the attempts that are due; return what has begun and ended.

        Attempts are waited for, but no longer than `patience`: what comes of others is written down by the next look.
        Nothing is done while another watcher looks. Raises FrontierError if the frontier of a job cannot be read; that
        partitions do not answer is a condition.
        """
        with self._alone() as alone:
            if not alone:
                return []
            state = self._state()
            settings, seen = self._seen(state)
            if patience is None:
                self._wait(None)
            self._write_down(state)
            changes = _note_conditions(state, settings.alerts, seen)
            for change in changes:
                state.deliveries += _deliveries(settings.alerts, change)
                self._note(settings.alerts, change)
            begun = self._begun(settings.alerts, settings.crawl, state, seen.now)
            self._save(state)
            for thread in begun:
                thread.start()
            self._wait(patience)
            if self._write_down(state):
                self._save(state)
            return changes

    def waits(self) -> float | None:
        """Return the seconds until the next attempt is due; None if none is to be made, or its sink is being told."""
        state = self._unsaved or alert_state.read(self._files).state or AlertState()
        due = [one.due for one in state.deliveries if one.done is None and one.sink not in self._senders]
        wait = min(due) - time.time() if due else None
        return None if wait is None else max(wait, 0.0) if wait <= _LONGEST_WAIT else 0.0

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the lock of the state within the block, if no other watcher has it."""
        file = LockFile(self._files.lock, create=True)
        try:
            try:
                file.lock(0)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            file.close()

    def _state(self) -> AlertState:
        """Return the state so far. A damaged file is kept under another name."""
        stored = alert_state.read(self._files)
        if stored.damaged:
            with suppress(OSError):
                self._warn(clean(alert_state.set_aside(self._files)))
        return self._unsaved or stored.state or AlertState()

    def _seen(self, state: AlertState) -> tuple[Settings, Observed | Unanswered]:
        """Look at the crawl; return the settings of its alerts, and what was seen."""
        known = self._crawl.settings
        try:
            with self._crawl.opened() as operator:
                settings = known or operator.settings
                head = operator.head()
                top, suspects = _top_spender(operator, settings, state), _trap_suspects(operator, settings, state)
                if not operator.missing:
                    free = {clean(folder): size for folder, size in free_by_disk(self._crawl.folders).items()}
                    past = _past(operator, settings, state, head.standing)
                    return settings, Observed(head.standing, head.verdict, free, top, suspects, past)
                sentence = operator.unanswered()
        except FrontierError as error:  # no partition answers, or not even Kafka
            if known is None:
                raise
            settings, sentence = known, str(error)
        self._warn(unreadable(sentence))
        now = time.time()
        return settings, Unanswered(now, min(state.unanswered or now, now), sentence, over=state.over)

    def _note(self, settings: AlertSettings, change: AlertChange) -> None:
        """Print a change, and write it to the log."""
        line = f"{format_time(change.time)} {'RAISED' if change.raised else 'OVER'} {change.condition}"
        line = clean(f"{line} {change.about.level} {change.about.text}")
        self._say(line)
        if settings.log:
            with suppress(OSError):  # the sinks are told nevertheless
                make_folder(self._files.log.parent, like=self._files.state.parent)
                with self._files.log.open("a", encoding="utf-8", errors="replace") as file:
                    file.write(f"{line}\n")

    def _save(self, state: AlertState) -> None:
        done = [one for one in state.deliveries if one.done is not None][-_MOST_DELIVERIES:]
        waiting = [one for one in state.deliveries if one.done is None][-_MOST_WAITING:]
        state.deliveries = sorted([*done, *waiting], key=lambda one: one.time)
        self._unsaved = state
        with suppress(OSError):  # a full disk is what an alert may be about
            with atomic_file(self._files.state) as file:
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
                alert_delivery.deliver(sink, alert_delivery.payload(crawl, self._crawl.job, one), self._environment)
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
        """Wait until no delivery is under way, at most for so many seconds."""
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


def _top_spender(operator: CrawlOperator, settings: Settings, state: AlertState) -> TopSpender | None:
    """Return the busiest queue, as whoever watches has read it last, or as it is now if that is long ago."""
    if settings.alerts.queue_share is None:
        return None
    now = time.time()
    if not 0.0 <= now - state.top[0] < _TOP_EVERY:
        found = operator.busiest(now - HOUR, now).queues
        total = sum(one.spent for one in found)
        first = max(found, key=lambda one: one.spent, default=None)
        top = None if first is None or not total else TopSpender(first.queue, first.spent / total, total)
        if operator.missing:
            return None
        state.top = now, top
    return state.top[1]


def _trap_suspects(operator: CrawlOperator, settings: Settings, state: AlertState) -> Sequence[TrapSuspect]:
    """Return the queues that look like traps, as whoever watches has found them last; RETIRED ones are none."""
    if settings.alerts.trap is None:
        return ()
    now = time.time()
    if not 0.0 <= now - state.suspects[0] < _SUSPECTS_EVERY:
        handing_out = Selection([state for state in QueueState if state is not QueueState.RETIRED])
        found = operator.traps(handing_out, _MOST_SUSPECTS)
        suspects = tuple(TrapSuspect(one.queue, one.score, clean(one.evidence[0].text)) for one in found)
        if operator.missing:
            return ()
        state.suspects = now, suspects
        return suspects
    return [one for one in state.suspects[1] if _hands_out(operator, one.queue)]


def _hands_out(operator: CrawlOperator, key: str) -> bool:
    """Return whether there still is a queue with this key, and it is not RETIRED."""
    try:
        queue, _ = operator.queue(key)
    except NoSuchQueue:
        return False
    return queue.queue == key and queue.state is not QueueState.RETIRED


def _past(operator: CrawlOperator, settings: Settings, state: AlertState, standing: Standing) -> Sequence[CrawlSample]:
    """Return samples of the last hour if nobody has looked in it, so that its dead letters count."""
    now, dead = standing.now, standing.totals.dead - standing.totals.dead_prerequisites
    if settings.alerts.dead_letters is None or not alert_conditions.lacks_past(state.samples, now):
        return ()
    happened = between(*operator.series(now - HOUR, now))
    times = [now - HOUR + part * _PAST_EVERY for part in range(_PARTS)]
    since = [happened(when, now).rates for when in times]
    counts = [round(rates["buried"].count) if rates else 0 for rates in since]
    return [CrawlSample(when, False, 0, max(dead - count, 0), {}) for when, count in zip(times, counts, strict=True)]


def _note_conditions(state: AlertState, settings: AlertSettings, seen: Observed | Unanswered) -> list[AlertChange]:
    """Bring the state up to what was seen of the crawl; return what has changed."""
    past: Sequence[CrawlSample] = ()
    if isinstance(seen, Observed):
        new = alert_conditions.sample(seen)
        state.samples = alert_conditions.sampled(settings, [*state.samples, *seen.past], new)
        past = state.samples if state.samples[-1] is new else [*state.samples, new]
        state.over, state.unanswered = alert_conditions.is_over(seen), 0.0
    else:
        state.unanswered = seen.since
    state.raised, changes = alert_conditions.look(settings, state.raised, past, seen)
    state.looked = seen.now
    for about in (*state.raised.values(), *(one.about for one in changes)):
        about.text = without_passwords(clean(about.text))
    return changes


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
        if one.due > now + _LONGEST_WAIT:
            one.due = now
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


def unreadable(why: object) -> str:
    """Return the line on a crawl that could not be seen, or not as a whole, in one look."""
    return f"{format_time(time.time())} this look failed: {clean(str(why))}"
