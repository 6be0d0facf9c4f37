"""Others who use the files at the same time: readers that never end or are killed, writers that start at once."""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import FrontierLocked
from budgetfrontier.storage.lock_table import READERS
from tests.crash.faults import die
from tests.crash.figures import Figures
from tests.crash.processes import Child, in_child, together
from tests.support import PATIENCE, START, make_settings, pages

COMMITS = 50
"""Of the writer between two looks at its file."""

LOOKS = 256
"""Commits after which a writer looks for readers that have died."""


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Another process that has a frontier open and crawls on when it is asked to; killed in the end."""
    writer = Writer(path)
    try:
        yield writer
    finally:
        os.kill(writer.child.pid, signal.SIGKILL)
        writer.child.ended()


class Writer:
    """What `writing` gives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked, self._ask = os.pipe()
        self._answer, self._answered = os.pipe()
        self.child = Child(self._serve)
        self.child.go()
        self.crawl(0)

    def crawl(self, commits: int) -> int:
        """Make so many commits, each with some work; the size of the data file then."""
        os.write(self._ask, bytes([commits]))
        if not select.select([self._answer], [], [], PATIENCE)[0] or os.read(self._answer, 1) != b"+":
            raise AssertionError("the writer hung or died")
        return (self._path / "data.mdb").stat().st_size

    def _serve(self) -> None:
        with Frontier.open(self._path, make_settings(hold_queues=False), clock=ManualClock(START)) as frontier:
            frontier.schedule_many(pages("ABCDEFGH", 60))
            frontier.commit()
            number = 0
            while True:
                for _ in range(os.read(self._asked, 1)[0]):
                    for lease in frontier.lease(4):
                        number += 1
                        frontier.finish(lease, discovered=pages("ABCDEFGH"[number % 8], 1, first=1000 + number))
                    frontier.commit()
                os.write(self._answered, b"+")


def _verdict(figures: Figures, path: Path) -> None:
    """Open what the writer left when it was killed."""

    def look() -> bool:
        with Frontier.open(path, clock=ManualClock(START)) as frontier:
            frontier.check()
            summary = frontier.summary()
            return summary.scheduled == summary.queued + summary.succeeded == summary.queued + summary.expenditure

    ended = in_child(look)
    figures.whole += bool(ended.answer)
    if not ended.answer:
        figures.problems.append(f"{figures.fault}: {ended}")


def never_ending(folder: Path, chance: Random, tries: int) -> Figures:
    """A reader holds its snapshot: the file grows while it does, and no more when it is gone."""
    figures = Figures("a reader that never ends")

    def read_on(path: Path, ready: int) -> None:
        with Reader(path) as reader:
            rows = reader.queues()
            next(rows)
            os.write(ready, b"+")
            signal.pause()

    for number in range(tries):
        path = folder / f"frontier-{number}"
        with writing(path) as writer:
            before = writer.crawl(COMMITS)
            said, ready = os.pipe()
            reader = Child(lambda: read_on(path, ready))  # noqa: B023
            reader.go()
            os.read(said, 1)
            grown = writer.crawl(COMMITS) - before
            os.kill(reader.pid, chance.choice((signal.SIGKILL, signal.SIGTERM)))
            reader.ended()
            for _ in range(1 + LOOKS // COMMITS):
                after = writer.crawl(COMMITS)
            again = writer.crawl(COMMITS) - after
        figures.tried += 1
        figures.notes["KiB more in 50 commits while it read"] += grown // 1024
        figures.notes["KiB more in 50 commits once it had ended"] += again // 1024
        if again > grown // 4:
            figures.problems.append(f"{figures.fault}: its pages are not used again: {grown} bytes, then {again}")
        _verdict(figures, path)
    return figures


def killed_readers(folder: Path, chance: Random, tries: int) -> Figures:
    """Readers are killed in the middle of reading, more of them than may read at once."""
    figures = Figures(f"readers killed while reading ({READERS} may read at once)")

    def read(path: Path) -> None:
        rows = Reader(path).queues()
        next(rows)
        die()

    path = folder / "frontier"
    with writing(path) as writer:
        sizes = []
        for number in range(tries):
            figures.tried += 1
            ended = in_child(lambda: read(path))
            figures.whole += ended.signal == signal.SIGKILL
            if ended.signal != signal.SIGKILL:
                figures.problems.append(f"{figures.fault}, number {number}: {ended}")
            if number % 30 == 29:
                sizes.append(writer.crawl(COMMITS))
        for _ in range(2 + LOOKS // COMMITS):
            sizes.append(writer.crawl(COMMITS))
        if sizes[-1] > sizes[-2]:
            figures.problems.append(f"{figures.fault}: the file grows on after their end: {sizes}")
    figures.tried += 1
    _verdict(figures, path)
    return figures


def racing(folder: Path, chance: Random, tries: int) -> Figures:
    """Writers that start at once: one gets the frontier, the others are told who has it."""
    figures = Figures("four writers started at once")
    path = folder / "frontier"
    for number in range(tries):
        if number % 3 == 0:
            shutil.rmtree(path, ignore_errors=True)
        said, say = os.pipe()

        def write(number: int = number, said: int = said, say: int = say) -> str:
            try:
                frontier = Frontier.open(path, make_settings(hold_queues=False), clock=ManualClock(START))
            except FrontierLocked:
                os.write(say, b"-")
                raise
            for _ in range(3):  # until all others have tried
                if not select.select([said], [], [], PATIENCE)[0]:
                    return "alone"
                os.read(said, 1)
            frontier.schedule(f"https://a.test/{number}")
            frontier.close() if number % 2 else frontier.commit()
            return "first"

        ended = together([write] * 4)
        os.close(said)
        os.close(say)
        answers = sorted(e.answer or e.error for e in ended)
        figures.tried += 1
        figures.named += answers.count("FrontierLocked")
        expected = number % 3 + 1
        left = in_child(lambda: _count(path))
        if answers != ["FrontierLocked"] * 3 + ["first"] or left.answer != expected:
            figures.problems.append(f"{figures.fault}: {answers}; {left}: {left.answer} URIs of {expected}")
        else:
            figures.whole += 1
    return figures


def _count(path: Path) -> int:
    with Frontier.open(path, clock=ManualClock(START)) as frontier:
        frontier.check()
        return frontier.summary().scheduled
