"""SIGKILL, hundreds of times: at every commit, before every operation, in system calls, at any line, at any moment."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.figures import Figures, Unavailable
from tests.crash.harms import STRACE, AtCall, AtEvent, AtLine, AtTime, Harmless
from tests.crash.lives import BEGUN, COMMITTED, STEP, Harm, Life, live
from tests.crash.workload import PLAIN, Step, any_values, drain, on_model, plan

WRITING = ("writev", "pwrite64", "fdatasync")
"""The system calls of a commit."""
MAKING = (*WRITING, "fsync", "rename", "mkdir", "fallocate", "ftruncate", "openat", "rmdir")
"""Those by which a frontier is made and opened."""

CHAPTER = 12
"""Processes that one frontier lives through before it is crawled to its end."""


def begun(folder: Path, chance: Random, **options: Any) -> Life:
    """A frontier with some history, whose last process was killed in the middle of its work."""
    life = Life.new(folder / "frontier", chance, **options).copied(folder / "frontier")
    for _ in range(2):
        life = lived(life, plan(life.after(), chance, 40))
    return life


def lived(life: Life, steps: list[Step]) -> Life:
    """Let a process do these steps, and kill it then."""
    outcome = live(life, steps, Harmless())
    assert outcome.done and not outcome.problem, outcome.problem or outcome.ended
    return outcome.life


def how_long(folder: Path, chance: Random) -> float:
    """Seconds that such work takes here when nothing comes in its way."""
    life = begun(folder, chance)
    steps = plan(life.after(), chance, 40)
    began = time.monotonic()
    lived(life, steps)
    seconds = time.monotonic() - began
    shutil.rmtree(life.folder)
    return seconds * 0.7  # the rest goes into looking at what is left


def sweep(
    figures: Figures, life: Life, steps: list[Step], harm: Callable[[int], Harm], limit: int, **options: Any
) -> None:
    """The same work from the same start, harmed at the first place, at the second, and so on to the last."""
    copy = life.folder.with_name("copy")
    for number in range(1, limit + 1):
        outcome = live(life.copied(copy), steps, harm(number), **options)
        figures.count(outcome)
        if outcome.done:
            break


def at_lines(figures: Figures, life: Life, steps: list[Step], chance: Random, tries: int, **options: Any) -> Life:
    """The same work from the same start, killed at random lines of our Python; what the last one left."""
    copy = life.folder.with_name("copy")
    lines = live(life.copied(copy), steps, AtLine(0), **options).lines
    for _ in range(tries):
        outcome = live(life.copied(copy), steps, AtLine(chance.randint(1, lines)), **options)
        figures.count(outcome)
    return outcome.life


def repeated(make: Callable[[], Harm]) -> Iterator[Harm]:
    """One harm after the other."""
    while True:
        yield make()


def histories(figures: Figures, folder: Path, chance: Random, tries: int, harms: Iterator[Harm]) -> None:
    """Frontiers that live through one harm after the other, and are then crawled to their end."""
    life = Life.new(folder / "frontier-0", chance)
    for number in range(1, tries + 1):
        changed = any_values(chance) if life.born and chance.random() < 0.2 else None
        steps = plan(life.after((), changed), chance, 40)
        if chance.random() < 0.2 and not life.keep_leases:
            steps.append(Step("close", steps[-1].now))
        outcome = live(life, steps, next(harms), changed=changed)
        figures.count(outcome)
        life = outcome.life
        if number % CHAPTER == 0 or number == tries or outcome.problem:
            if not outcome.problem:
                to_the_end(figures, life)
            shutil.rmtree(life.folder, ignore_errors=True)
            life = Life.new(folder / f"frontier-{number}", chance)


def to_the_end(figures: Figures, life: Life) -> None:
    """Crawl all that a frontier holds: every URI is finished once, and nothing else comes."""
    model = life.after()
    held = Counter(uri.url for queue in model.queues.values() for uri in queue.uris)
    held += Counter(uri.url for _, uri in model.future) + Counter(uri.url for uri in model.dead)
    steps, finished = drain(model)
    outcome = live(life, steps, Harmless())
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
        life = begun(folder, chance, commit_operations=chance.choice((1, 3)))
        steps = plan(life.after(), chance, 40)
        sweep(figures, life, steps, lambda number: AtEvent(BEGUN, number), (tries - figures.tried + 1) // 2)
        sweep(figures, life, steps, lambda number: AtEvent(COMMITTED, number), tries - figures.tried)
    return figures


def before_operations(folder: Path, chance: Random, tries: int) -> Figures:
    """Each operation of a process, in turn."""
    figures = Figures("SIGKILL before every operation")
    while figures.tried < tries:
        life = begun(folder, chance)
        steps = plan(life.after(), chance, 40)
        sweep(figures, life, steps, lambda number: AtEvent(STEP, number), tries - figures.tried)
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
        life = begun(folder, chance)
        at_lines(figures, life, plan(life.after(), chance, 40), chance, min(20, tries - figures.tried))
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
    life = Life.new(folder / "frontier", chance)
    if STRACE is not None:
        for call in MAKING:
            sweep(figures, life, [], lambda number, call=call: AtCall(call, number), tries // 2)  # type: ignore[misc]
    at_lines(figures, life, [], chance, max(tries - figures.tried, tries // 2))
    return figures


def at_opening(folder: Path, chance: Random, tries: int) -> Figures:
    """While a frontier is opened whose last process was killed, with other settings every second time."""
    figures = Figures("SIGKILL while a frontier is opened")
    while figures.tried < tries:
        life = begun(folder, chance)
        changed = any_values(chance) if chance.random() < 0.5 else None
        if STRACE is not None:
            call = chance.choice(WRITING)
            sweep(figures, life, [], lambda number, call=call: AtCall(call, number), 3, changed=changed)  # type: ignore[misc]
        at_lines(figures, life, [], chance, 10, changed=changed)
    return figures


def at_adjusting(folder: Path, chance: Random, tries: int) -> Figures:
    """While an `adjust` revives many queues."""
    figures = Figures("SIGKILL while an adjust revives 500 queues")
    life = many_retired(folder, chance, 500)
    steps = adjusting(life)
    for kind in BEGUN, COMMITTED:
        sweep(figures, life, steps, lambda number, kind=kind: AtEvent(kind, number), min(5, tries))  # type: ignore[misc]
    if STRACE is not None:
        for call in WRITING:
            sweep(figures, life, steps, lambda number, call=call: AtCall(call, number), min(8, tries))  # type: ignore[misc]
    to_the_end(figures, at_lines(figures, life, steps, chance, max(tries - figures.tried, tries // 2)))
    return figures


def adjusting(life: Life) -> list[Step]:
    """What revives all its queues, and the first turns of those, with commits in between."""
    model = life.after()
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


def many_retired(folder: Path, chance: Random, number: int) -> Life:
    """A frontier with so many queues over budget."""
    life = Life.new(folder / "frontier", chance, queue_total_budget=0, retire_when="reached", commit_operations=10_000)
    model = life.after()
    plain = {"cost": 1, "directive": 3, "priority": 0, "force": False, "not_before": None, "queue": None}
    uris = tuple({"url": f"https://h{host}.test/", **plain} for host in range(number))
    steps = [Step("schedule_many", model.now, uris), Step("lease", model.now, (1, 300.0)), Step("commit", model.now)]
    return lived(life, [step._replace(told=on_model(model, step)) for step in steps])
