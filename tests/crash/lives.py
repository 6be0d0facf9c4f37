"""A frontier on disk, worked on by processes that come to harm one after the other, and what it must hold after each.

A process tells over a pipe what it is about to do, and when a commit begins and returns. Whatever ended it, the
frontier must then be as it was at the last commit that returned, or at the one that had begun: nothing else passes.
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
from budgetfrontier.model import Lease
from budgetfrontier.store.environment import Environment
from tests.crash.oracle import differences
from tests.crash.processes import Ended, Go, in_child
from tests.crash.workload import START, Ledger, Step, Worker, any_options, on_model, settings_of

STEP, BEGUN, COMMITTED, DONE, LINES = b"s", b"b", b"c", b"d", b"l"
"""What a process tells: it begins a step, it begins a commit, the commit has returned, all is done, so many lines."""

_EVENT = struct.Struct("<ci")
_OPENING = -1  # the number of the step that opening is


class Harm(Protocol):
    """What happens to a process: `arm` within it, `strike` from outside, `mend` before the next opens its frontier.

    `accepts` says whether it may have ended so.
    """

    lasting: bool
    """It is still there when the process has ended: opening the frontier then must do no worse than name it."""

    def arm(self, events: Events) -> None: ...

    def strike(self, pid: int, go: Go) -> None: ...

    def accepts(self, ended: Ended) -> bool: ...

    def mend(self) -> None: ...


class Events:
    """The pipe by which a process tells what it does."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.step = _OPENING
        self._counts: Counter[bytes] = Counter()
        self._traps: dict[tuple[bytes, int], Callable[[], object]] = {}

    def trap(self, kind: bytes, number: int, do: Callable[[], object]) -> None:
        """Let something be done at the `number`th event of a kind."""
        self._traps[kind, number] = do

    def tell(self, kind: bytes, value: int | None = None) -> None:
        os.write(self._fd, _EVENT.pack(kind, self.step if value is None else value))
        self._counts[kind] += 1
        self._traps.pop((kind, self._counts[kind]), lambda: None)()


def read_events(fd: int) -> Iterator[tuple[bytes, int]]:
    """What a process has told before its end."""
    with open(fd, "rb") as pipe:
        told = pipe.read()
    yield from _EVENT.iter_unpack(told[: len(told) // _EVENT.size * _EVENT.size])


@dataclass(frozen=True)
class Life:
    """A frontier between two processes: its folder, and the model of what it holds."""

    folder: Path
    model: bytes
    keep_leases: bool = False
    born: bool = False
    """A process has got as far as the first commit."""

    @classmethod
    def new(cls, folder: Path, chance: Random, **options: Any) -> Life:
        """A frontier that no process has made yet."""
        model = Ledger(any_options(chance) | options, START)
        return cls(folder, pickle.dumps(model), chance.random() < 0.25)

    def after(self, steps: Sequence[Step] = (), changed: dict[str, Any] | None = None) -> Ledger:
        """The model after a process has opened it and has done these steps."""
        model = pickle.loads(self.model)
        assert isinstance(model, Ledger)
        model.reopened(changed, keep_leases=self.keep_leases)
        for step in steps:
            on_model(model, step)
        return model

    def copied(self, folder: Path) -> Life:
        """The same frontier in another folder."""
        shutil.rmtree(folder, ignore_errors=True)
        if self.folder.exists():
            shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)


@dataclass
class Outcome:
    """How a process ended, what it had told, and the frontier that it left; `problem` says what is wrong with that."""

    ended: Ended
    life: Life
    events: list[tuple[bytes, int]]
    """What it had told."""
    refused: str = ""
    """The named error for which the frontier could not be opened before it was mended."""
    problem: str = ""

    @property
    def done(self) -> bool:
        """The process had done all its steps."""
        return any(kind == DONE for kind, _ in self.events)

    @property
    def lines(self) -> int:
        """How many lines of Python that took, if they were counted."""
        return sum(value for kind, value in self.events if kind == LINES)


def live(life: Life, steps: list[Step], harm: Harm, *, changed: dict[str, Any] | None = None) -> Outcome:
    """Let a process open the frontier and do these steps, come to harm, and find out what is left."""
    read, write = os.pipe()
    start = pickle.loads(life.model)
    assert isinstance(start, Ledger)
    ended = in_child(lambda: _work(life, steps, harm, changed, Events(write), start), meanwhile=harm.strike)
    os.close(write)
    outcome = Outcome(ended, life, list(read_events(read)))
    if not harm.accepts(ended):
        outcome.problem = str(ended)
    elif harm.lasting:
        outcome.refused, outcome.problem = _tried(life, start, _time_of(steps, outcome.events))
    harm.mend()
    return outcome if outcome.problem else _found(outcome, steps, changed)


def _time_of(steps: list[Step], events: list[tuple[bytes, int]]) -> float:
    """What time it was at the process's end; 0.0: the time it began."""
    asked = max((step for kind, step in events if kind == STEP), default=_OPENING)
    return 0.0 if asked == _OPENING else steps[asked].now


def _tried(life: Life, start: Ledger, now: float) -> tuple[str, str]:
    """Open the frontier while whatever it was still lasts: the error that has a name, or the problem that has none."""
    settings = None if life.born else settings_of(start.options)

    def look() -> bool:
        clock = ManualClock(max(start.now, now))
        with Frontier.open(life.folder, settings, clock=clock, keep_leases=life.keep_leases) as f:
            f.check()
        return True

    ended = in_child(look)
    return ended.error, "" if ended.answer or ended.named else f"opened while it lasted: {ended}"


def _work(
    life: Life, steps: list[Step], harm: Harm, changed: dict[str, Any] | None, events: Events, start: Ledger
) -> None:
    clock = ManualClock(start.now)
    with _told_commits(events):
        harm.arm(events)
        settings = settings_of(start.options | (changed or {})) if changed or not life.born else None
        frontier = Frontier.open(life.folder, settings, clock=clock, keep_leases=life.keep_leases)
        handed = _kept(life.folder, start) if life.keep_leases else {}
        worker = Worker(frontier, life.folder, clock, handed)
        for number, step in enumerate(steps):
            events.step = number
            events.tell(STEP)
            worker.do(step)
        events.tell(DONE)
        os.kill(os.getpid(), signal.SIGKILL)


def _kept(folder: Path, start: Ledger) -> dict[int, Lease]:
    """The leases that outlived their process, under the model's numbers."""
    with Reader(folder) as reader:
        return dict(zip(sorted(start.leases), sorted(reader.leases(), key=lambda lease: lease.id), strict=True))


@contextmanager
def _told_commits(events: Events) -> Iterator[None]:
    """Tell when commits begin and have returned."""
    commit = Environment.commit

    def telling(self: Environment) -> None:
        events.tell(BEGUN)
        commit(self)
        events.tell(COMMITTED)

    Environment.commit = telling  # type: ignore[method-assign]
    try:
        yield
    finally:
        Environment.commit = commit  # type: ignore[method-assign]


def _found(outcome: Outcome, steps: list[Step], changed: dict[str, Any] | None) -> Outcome:
    candidates = list(_candidates(outcome.life, steps, changed, outcome.events, failed=bool(outcome.ended.error)))
    outcome.life, outcome.problem = reopened(outcome.life, candidates)
    if outcome.problem:
        outcome.problem = f"{outcome.ended}, then {outcome.problem}"
    return outcome


def reopened(life: Life, candidates: list[Ledger]) -> tuple[Life, str]:
    """Open the frontier, check it, and compare it with what it may be: what it is, and what is wrong with that."""
    settings = None if life.born else settings_of(candidates[0].options)

    def look() -> int:
        clock = ManualClock(candidates[0].now)
        with Frontier.open(life.folder, settings, clock=clock, keep_leases=life.keep_leases) as frontier:
            frontier.check()
            wrong = []
            for number, model in enumerate(candidates):
                found = differences(frontier, life.folder, model)
                if not found:
                    return number
                wrong.append("\n  ".join(found[:12]))
        raise AssertionError("\n or\n  ".join(wrong))

    ended = in_child(look)
    if ended.answer is None:
        return life, f"reopened: {ended}"
    return replace(life, model=pickle.dumps(candidates[ended.answer]), born=True), ""


def at_boundary(
    life: Life, steps: list[Step], boundary: int | None, now: float, changed: dict[str, Any] | None = None
) -> Ledger:
    """The model when it is opened at `now`, as of a commit within a step (None: before the first one)."""
    model = pickle.loads(life.model) if boundary is None else life.after(steps[: boundary + 1], changed)
    assert isinstance(model, Ledger)
    model.now = max(model.now, now)
    model.reopened(keep_leases=life.keep_leases)
    return model


def _candidates(
    life: Life, steps: list[Step], changed: dict[str, Any] | None, events: list[tuple[bytes, int]], *, failed: bool
) -> Iterator[Ledger]:
    """The states in which the frontier may be found: as of the last commit that returned, or the one that had begun.

    A commit that raised an error is none. With each state also as it is when a command that had been left in the
    mailbox is applied on top.
    """
    asked = max((step for kind, step in events if kind == STEP), default=_OPENING)
    now = _time_of(steps, events)
    commits = [(kind, step) for kind, step in events if kind in (BEGUN, COMMITTED)]
    returned = [step for kind, step in commits if kind == COMMITTED]
    boundaries: list[int | None] = [returned[-1] if returned else None]
    if commits and commits[-1][0] == BEGUN and not failed:
        boundaries.append(commits[-1][1])
    for boundary in boundaries:
        model = at_boundary(life, steps, boundary, now, changed)
        yield model
        if asked != _OPENING and steps[asked].op == "post" and (boundary is None or boundary < asked):
            told = pickle.loads(pickle.dumps(model))
            on_model(told, steps[asked])
            yield told
