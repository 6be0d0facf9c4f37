"""SIGKILL, hundreds of times: at every commit, before every operation, in system calls, at any line, at any moment."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.faults import STRACE, AtCall, AtEvent, AtLine, AtTime, NoFault
from tests.crash.figures import Figures, Unavailable
from tests.crash.runs import BEGUN, COMMITTED, STEP, Fault, Subject, run_process
from tests.crash.workload import Step, any_values, drain, on_model, plan
from tests.stateful.model import PLAIN

WRITING = ("writev", "pwrite64", "fdatasync")
"""The system calls of a commit."""
MAKING = (*WRITING, "fsync", "rename", "mkdir", "fallocate", "ftruncate", "openat", "rmdir")
"""Those by which a frontier is made and opened."""

CHAPTER = 12
"""The number of processes that work on one frontier before it is crawled to its end."""


def begun(folder: Path, chance: Random, **options: Any) -> Subject:
    """Return a frontier with some history, whose last process was killed in the middle of its work."""
    subject = Subject.new(folder / "frontier", chance, **options).copied(folder / "frontier")
    for _ in range(2):
        subject = run_steps(subject, plan(subject.after(), chance, 40))
    return subject


def run_steps(subject: Subject, steps: list[Step]) -> Subject:
    """Run a process that does these steps, and is then killed."""
    outcome = run_process(subject, steps, NoFault())
    assert outcome.done and not outcome.problem, outcome.problem or outcome.ended
    return outcome.subject


def how_long(folder: Path, chance: Random) -> float:
    """Return the seconds that such work takes on this machine without a fault."""
    subject = begun(folder, chance)
    steps = plan(subject.after(), chance, 40)
    began = time.monotonic()
    run_steps(subject, steps)
    seconds = time.monotonic() - began
    shutil.rmtree(subject.folder)
    return seconds * 0.7  # the rest is for the check of what is left


def sweep(
    figures: Figures, subject: Subject, steps: list[Step], fault: Callable[[int], Fault], limit: int, **options: Any
) -> None:
    """Do the same work from the same start, with the fault at the first point, at the second, and so on."""
    copy = subject.folder.with_name("copy")
    for number in range(1, limit + 1):
        outcome = run_process(subject.copied(copy), steps, fault(number), **options)
        figures.count(outcome)
        if outcome.done:
            break


def at_lines(
    figures: Figures, subject: Subject, steps: list[Step], chance: Random, tries: int, **options: Any
) -> Subject:
    """The same work from the same start, killed at random lines of our Python; what the last one left."""
    copy = subject.folder.with_name("copy")
    lines = run_process(subject.copied(copy), steps, AtLine(0), **options).lines
    for _ in range(tries):
        outcome = run_process(subject.copied(copy), steps, AtLine(chance.randint(1, lines)), **options)
        figures.count(outcome)
    return outcome.subject


def repeated(make: Callable[[], Fault]) -> Iterator[Fault]:
    """Yield new faults without end."""
    while True:
        yield make()


def histories(figures: Figures, folder: Path, chance: Random, tries: int, faults: Iterator[Fault]) -> None:
    """Subject frontiers to one fault after the other, then crawl them to their end."""
    subject = Subject.new(folder / "frontier-0", chance)
    for number in range(1, tries + 1):
        changed = any_values(chance) if subject.created and chance.random() < 0.2 else None
        steps = plan(subject.after((), changed), chance, 40)
        if chance.random() < 0.2 and not subject.keep_leases:
            steps.append(Step("close", steps[-1].now))
        outcome = run_process(subject, steps, next(faults), changed=changed)
        figures.count(outcome)
        subject = outcome.subject
        if number % CHAPTER == 0 or number == tries or outcome.problem:
            if not outcome.problem:
                to_the_end(figures, subject)
            shutil.rmtree(subject.folder, ignore_errors=True)
            subject = Subject.new(folder / f"frontier-{number}", chance)


def to_the_end(figures: Figures, subject: Subject) -> None:
    """Crawl all that a frontier holds: every URI is finished once, and nothing else comes."""
    model = subject.after()
    held = Counter(uri.url for queue in model.queues.values() for uri in queue.uris)
    held += Counter(uri.url for _, uri in model.future) + Counter(uri.url for uri in model.dead)
    steps, finished = drain(model)
    held -= Counter(uri.url for uri in model.dead)  # those whose URLs waited, too
    outcome = run_process(subject, steps, NoFault())
    if outcome.problem or not outcome.done:
        figures.problems.append(f"{figures.fault}: crawled to the end: {outcome.problem or outcome.ended}")
    elif finished != held:
        figures.problems.append(f"{figures.fault}: finished too often {finished - held}, never {held - finished}")
    else:
        figures.notes["URIs crawled to the end afterwards"] += finished.total()


# -- the faults


def at_commits(folder: Path, chance: Random, tries: int) -> Figures:
    """Each commit of a process, in turn."""
    figures = Figures("SIGKILL before and after every commit")
    while figures.tried < tries:
        subject = begun(folder, chance, commit_operations=chance.choice((1, 3)))
        steps = plan(subject.after(), chance, 40)
        sweep(figures, subject, steps, lambda number: AtEvent(BEGUN, number), (tries - figures.tried + 1) // 2)
        sweep(figures, subject, steps, lambda number: AtEvent(COMMITTED, number), tries - figures.tried)
    return figures


def before_operations(folder: Path, chance: Random, tries: int) -> Figures:
    """Each operation of a process, in turn."""
    figures = Figures("SIGKILL before every operation")
    while figures.tried < tries:
        subject = begun(folder, chance)
        steps = plan(subject.after(), chance, 40)
        sweep(figures, subject, steps, lambda number: AtEvent(STEP, number), tries - figures.tried)
    return figures


def at_moments(folder: Path, chance: Random, tries: int) -> Figures:
    """From outside, at any moment from the opening on."""
    figures = Figures("SIGKILL at random moments")
    seconds = how_long(folder, chance)
    histories(figures, folder, chance, tries, repeated(lambda: AtTime(chance.uniform(0.0, seconds))))
    return figures


def at_any_line(folder: Path, chance: Random, tries: int) -> Figures:
    """Between any two lines of Python."""
    figures = Figures("SIGKILL at random lines of Python")
    while figures.tried < tries:
        subject = begun(folder, chance)
        at_lines(figures, subject, plan(subject.after(), chance, 40), chance, min(20, tries - figures.tried))
    return figures


def in_calls(folder: Path, chance: Random, tries: int) -> Figures:
    """In the system calls of a commit."""
    if STRACE is None:
        raise Unavailable("strace is not installed")
    figures = Figures("SIGKILL in system calls of a commit")
    histories(figures, folder, chance, tries, repeated(lambda: AtCall(chance.choice(WRITING), chance.randint(1, 12))))
    return figures


def at_making(folder: Path, chance: Random, tries: int) -> Figures:
    """While a new frontier is made."""
    figures = Figures("SIGKILL while a frontier is made")
    subject = Subject.new(folder / "frontier", chance)
    if STRACE is not None:
        for call in MAKING:
            sweep(figures, subject, [], lambda number, call=call: AtCall(call, number), tries // 2)  # type: ignore[misc]
    at_lines(figures, subject, [], chance, max(tries - figures.tried, tries // 2))
    return figures


def at_opening(folder: Path, chance: Random, tries: int) -> Figures:
    """While a frontier is opened whose last process was killed, with other settings every second time."""
    figures = Figures("SIGKILL while a frontier is opened")
    while figures.tried < tries:
        subject = begun(folder, chance)
        changed = any_values(chance) if chance.random() < 0.5 else None
        if STRACE is not None:
            call = chance.choice(WRITING)
            sweep(figures, subject, [], lambda number, call=call: AtCall(call, number), 3, changed=changed)  # type: ignore[misc]
        at_lines(figures, subject, [], chance, 10, changed=changed)
    return figures


def at_adjusting(folder: Path, chance: Random, tries: int) -> Figures:
    """While an `adjust` revives many queues."""
    figures = Figures("SIGKILL while an adjust revives 500 queues")
    subject = many_retired(folder, chance, 500)
    steps = adjusting(subject)
    for kind in BEGUN, COMMITTED:
        sweep(figures, subject, steps, lambda number, kind=kind: AtEvent(kind, number), min(5, tries))  # type: ignore[misc]
    if STRACE is not None:
        for call in WRITING:
            sweep(figures, subject, steps, lambda number, call=call: AtCall(call, number), min(8, tries))  # type: ignore[misc]
    to_the_end(figures, at_lines(figures, subject, steps, chance, max(tries - figures.tried, tries // 2)))
    return figures


def adjusting(subject: Subject) -> list[Step]:
    """What revives all its queues, and the first turns of those, with commits in between."""
    model = subject.after()
    steps: list[Step] = []

    def do(op: str, *args: Any) -> Any:
        step = Step(op, model.now, args)
        steps.append(step._replace(told=on_model(model, step)))
        return steps[-1].told

    do("adjust", "*", {"queue_total_budget": 9})
    for _ in range(4):
        do("commit")
        for number, *_ in do("lease", 12, 300.0):
            do("finish", number, "SUCCESS", PLAIN, [])
    do("commit")
    return steps


def many_retired(folder: Path, chance: Random, number: int) -> Subject:
    """A frontier with so many queues over budget."""
    subject = Subject.new(
        folder / "frontier", chance, queue_total_budget=0, retire_when="reached", commit_operations=10_000
    )
    model = subject.after()
    plain = {"cost": 1, "directive": 3, "priority": 0, "force": False, "not_before": None, "queue": None}
    uris = tuple({"url": f"https://h{host}.test/", **plain} for host in range(number))
    steps = [Step("schedule_many", model.now, uris), Step("lease", model.now, (1, 300.0)), Step("commit", model.now)]
    return run_steps(subject, [step._replace(told=on_model(model, step)) for step in steps])
