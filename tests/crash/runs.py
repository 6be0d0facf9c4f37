"""Runs of processes on a frontier on disk, each ended by a fault, and the check of what it left.

A process reports over a pipe what it is about to do, and when a commit begins and returns. However it ended, the
frontier must be in the state of the last commit that returned, or of the one that had begun.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease
from budgetfrontier.storage.environment import Environment
from tests.crash.oracle import differences
from tests.crash.processes import Ended, Go, in_child
from tests.crash.workload import START, Ledger, Step, Worker, any_options, on_model, settings_of

STEP, BEGUN, COMMITTED, DONE, LINES, CUT = b"s", b"b", b"c", b"d", b"l", b"x"
"""Kinds of events: a step begins, a commit begins, a commit has returned, all steps are done, a number of lines; the
power is about to be cut."""

_EVENT = struct.Struct("<ci")
_OPENING = -1  # the number that stands for the opening among the steps


class Fault(Protocol):
    """A fault: `arm` is called in the process, `inject` outside, `clear` before the next process opens the frontier.

    `accepts` tells whether the process may end in this way.
    """

    lasting: bool
    """Whether the fault remains after the process: opening the frontier must then succeed, or raise a named error."""

    def arm(self, events: Events) -> None: ...

    def inject(self, pid: int, go: Go, events: Events) -> None: ...

    def accepts(self, ended: Ended) -> bool: ...

    def clear(self) -> None: ...


class Events:
    """The pipe over which a process reports its events, and what injects a fault its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.step = _OPENING
        self._counts: Counter[bytes] = Counter()
        self._traps: dict[tuple[bytes, int], Callable[[], object]] = {}

    def trap(self, kind: bytes, number: int, do: Callable[[], object]) -> None:
        """Call a function at the `number`th event of a kind."""
        self._traps[kind, number] = do

    def send(self, kind: bytes, value: int | None = None) -> None:
        os.write(self._fd, _EVENT.pack(kind, self.step if value is None else value))
        self._counts[kind] += 1
        self._traps.pop((kind, self._counts[kind]), lambda: None)()


def read_events(fd: int) -> Iterator[tuple[bytes, int]]:
    """Yield the events that a process reported before its end."""
    with open(fd, "rb") as pipe:
        raw = pipe.read()
    yield from _EVENT.iter_unpack(raw[: len(raw) // _EVENT.size * _EVENT.size])


@dataclass(frozen=True)
class Subject:
    """A frontier under test, between two processes: its folder, and the model of its content."""

    folder: Path
    model: bytes
    keep_leases: bool = False
    created: bool = False
    """Whether a process has reached the first commit."""

    @classmethod
    def new(cls, folder: Path, chance: Random, **options: Any) -> Subject:
        """Return a frontier that no process has created yet."""
        model = Ledger(any_options(chance) | options, START)
        return cls(folder, pickle.dumps(model), chance.random() < 0.25)

    def after(self, steps: Sequence[Step] = (), changed: dict[str, Any] | None = None) -> Ledger:
        """Return the model after a process has opened the frontier and done these steps."""
        model = pickle.loads(self.model)
        assert isinstance(model, Ledger)
        model.reopened(changed, keep_leases=self.keep_leases)
        for step in steps:
            on_model(model, step)
        return model

    def copied(self, folder: Path) -> Subject:
        """Return a copy of the frontier in another folder."""
        shutil.rmtree(folder, ignore_errors=True)
        if self.folder.exists():
            shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)


@dataclass
class Outcome:
    """The end of a process, its events, and the frontier that it left; `problem` says what is wrong with that."""

    ended: Ended
    subject: Subject
    events: list[tuple[bytes, int]]
    """The events that it reported."""
    refused: str = ""
    """The named error that prevented opening the frontier before the fault was cleared."""
    problem: str = ""

    @property
    def done(self) -> bool:
        """Whether the process had done all steps."""
        return any(kind == DONE for kind, _ in self.events)

    @property
    def lines(self) -> int:
        """The number of lines of Python that it ran, if they were counted."""
        return sum(value for kind, value in self.events if kind == LINES)


def run_process(subject: Subject, steps: list[Step], fault: Fault, *, changed: dict[str, Any] | None = None) -> Outcome:
    """Run a process that opens the frontier and does these steps under a fault, and check what is left."""
    read, write = os.pipe()
    start = pickle.loads(subject.model)
    assert isinstance(start, Ledger)
    events = Events(write)
    ended = in_child(
        lambda: _work(subject, steps, fault, changed, events, start),
        meanwhile=lambda pid, go: fault.inject(pid, go, events),
    )
    os.close(write)
    outcome = Outcome(ended, subject, list(read_events(read)))
    if not fault.accepts(ended):
        outcome.problem = str(ended)
    elif fault.lasting:
        outcome.refused, outcome.problem = _tried(subject, start, _time_of(steps, outcome.events))
    fault.clear()
    return outcome if outcome.problem else _found(outcome, steps, changed)


def _time_of(steps: list[Step], events: list[tuple[bytes, int]]) -> float:
    """Return the time at the end of the process; 0.0 if it did not get beyond opening."""
    asked = max((step for kind, step in events if kind == STEP), default=_OPENING)
    return 0.0 if asked == _OPENING else steps[asked].now


def _tried(subject: Subject, start: Ledger, now: float) -> tuple[str, str]:
    """Open the frontier while the fault lasts; return the named error, or else the problem."""
    settings = None if subject.created else settings_of(start.options)

    def look() -> bool:
        clock = ManualClock(max(start.now, now))
        with Frontier.open(subject.folder, settings, clock=clock, keep_leases=subject.keep_leases) as f:
            f.check()
        return True

    ended = in_child(look)
    return ended.error, "" if ended.answer or ended.named else f"opened while the fault lasted: {ended}"


def _work(
    subject: Subject, steps: list[Step], fault: Fault, changed: dict[str, Any] | None, events: Events, start: Ledger
) -> None:
    clock = ManualClock(start.now)
    with _reported_commits(events):
        fault.arm(events)
        settings = settings_of(start.options | (changed or {})) if changed or not subject.created else None
        frontier = Frontier.open(subject.folder, settings, clock=clock, keep_leases=subject.keep_leases)
        handed = _kept(subject.folder, start) if subject.keep_leases else {}
        worker = Worker(frontier, subject.folder, clock, handed)
        for number, step in enumerate(steps):
            events.step = number
            events.send(STEP)
            worker.do(step)
        events.send(DONE)
        os.kill(os.getpid(), signal.SIGKILL)


def _kept(folder: Path, start: Ledger) -> dict[int, Lease]:
    """Return the leases that outlived their process, by their numbers in the model."""
    with Reader(folder) as reader:
        return dict(zip(sorted(start.leases), sorted(reader.leases(), key=lambda lease: lease.id), strict=True))


@contextmanager
def _reported_commits(events: Events) -> Iterator[None]:
    """Report when commits begin and have returned."""
    commit = Environment.commit

    def reporting_commit(self: Environment) -> None:
        events.send(BEGUN)
        commit(self)
        events.send(COMMITTED)

    Environment.commit = reporting_commit  # type: ignore[method-assign]
    try:
        yield
    finally:
        Environment.commit = commit  # type: ignore[method-assign]


def _found(outcome: Outcome, steps: list[Step], changed: dict[str, Any] | None) -> Outcome:
    candidates = list(_candidates(outcome.subject, steps, changed, outcome.events, failed=bool(outcome.ended.error)))
    outcome.subject, outcome.problem = reopened(outcome.subject, candidates)
    if outcome.problem:
        outcome.problem = f"{outcome.ended}, then {outcome.problem}"
    return outcome


def reopened(subject: Subject, candidates: list[Ledger]) -> tuple[Subject, str]:
    """Open the frontier, check it, and compare it with the candidates; return the one it equals, or a problem."""
    settings = None if subject.created else settings_of(candidates[0].options)

    def look() -> int:
        clock = ManualClock(candidates[0].now)
        with Frontier.open(subject.folder, settings, clock=clock, keep_leases=subject.keep_leases) as frontier:
            frontier.check()
            wrong = []
            for number, model in enumerate(candidates):
                found = differences(frontier, subject.folder, model)
                if not found:
                    return number
                wrong.append("\n  ".join(found[:12]))
        raise AssertionError("\n or\n  ".join(wrong))

    ended = in_child(look)
    if ended.answer is None:
        return subject, f"reopened: {ended}"
    return replace(subject, model=pickle.dumps(candidates[ended.answer]), created=True), ""


def at_boundary(
    subject: Subject, steps: list[Step], boundary: int | None, now: float, changed: dict[str, Any] | None = None
) -> Ledger:
    """Return the model as opened at `now` with the state of a commit within a step (None: before the first one)."""
    model = pickle.loads(subject.model) if boundary is None else subject.after(steps[: boundary + 1], changed)
    assert isinstance(model, Ledger)
    model.now = max(model.now, now)
    model.reopened(keep_leases=subject.keep_leases)
    return model


def _candidates(
    subject: Subject,
    steps: list[Step],
    changed: dict[str, Any] | None,
    events: list[tuple[bytes, int]],
    *,
    failed: bool,
) -> Iterator[Ledger]:
    """Yield the possible states of the frontier: that of the last commit that returned, or of one that had begun.

    A commit that raised an error does not count. One that returned while the power was being cut is one that had begun:
    the system may still call a sync a success then. Each state is also yielded with the command applied that was left
    in the mailbox, if any.
    """
    asked = max((step for kind, step in events if kind == STEP), default=_OPENING)
    now = _time_of(steps, events)
    kinds = [kind for kind, _ in events]
    cut = kinds.index(CUT) if CUT in kinds else len(events)
    returned = [number for number, kind in enumerate(kinds[:cut]) if kind == COMMITTED]
    after = returned[-1] + 1 if returned else 0
    commits = [(kind, step) for kind, step in events[after:] if kind in (BEGUN, COMMITTED)]
    if failed and commits and commits[-1][0] == BEGUN:
        commits.pop()
    boundaries: list[int | None] = [events[after - 1][1] if returned else None]
    boundaries += [step for kind, step in commits if kind == BEGUN]
    if failed and returned and boundaries[0] == asked and steps[asked].op in ("delete", "drop"):
        refused = at_boundary(subject, steps, asked - 1 if asked else None, now, changed)
        refused.commands += 1  # what it keeps had no room: that it was refused is committed, with its audit entry
        yield refused
    for boundary in boundaries:
        model = at_boundary(subject, steps, boundary, now, changed)
        yield model
        if asked != _OPENING and steps[asked].op == "post" and (boundary is None or boundary < asked):
            told = pickle.loads(pickle.dumps(model))
            on_model(told, steps[asked])
            yield told
