"""The thread of a crawl: it owns the frontier, does work in order, and commits before the results go out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from budgetfrontier.endings import is_closed
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed
from budgetfrontier.model import RunEnd
from budgetfrontier.rules.run_history import SERVE
from budgetfrontier.service.tasks import Step
from budgetfrontier.settings import Settings

_T = TypeVar("_T")

MOST_SECONDS = 0.01
"""Seconds of work between two commits, at the least one piece: what waits shares a commit."""
MOST_AT_ONCE = 1000
"""Pieces of work that are taken together."""
IDLE = 0.5
"""Seconds without work after which the mailbox is looked at, and what has expired or is due is moved."""

Done = Callable[[Any, BaseException | None], None]

log = logging.getLogger("budgetfrontier.service")


class _Work(NamedTuple):
    work: Callable[[Frontier], Any] | None
    done: Done
    changes: bool


class CrawlThread:
    """A crawl whose frontier runs in a thread of its own, which opens it. `submit` may be called in any thread.

    The results of work that changes something go out once the changes are on disk: what was acknowledged survives a
    crash. All work that arrives during a commit shares the next one. A frontier that an error has closed, such as a
    full disk, is opened again for the next work.
    """

    def __init__(self, name: str, folder: Path, settings: Settings | None) -> None:
        self.name = name
        self.folder = folder
        self._settings = settings
        self._inbox: SimpleQueue[_Work] = SimpleQueue()
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._main, name=f"crawl {name}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<CrawlThread {self.name}: {self.folder}>"

    def submit(self, work: Callable[[Frontier], Any], done: Done, *, changes: bool = True) -> None:
        """Let the thread call `work(frontier)`, then `done(result, None)` or `done(None, error)`.

        If it `changes` something, `done` is called after a commit. It must be short, and raise nothing.
        """
        if self._closing:
            done(None, self._being_closed())
        else:
            self._inbox.put(_Work(work, done, changes))
            if self._ended:
                self._refuse()

    def run(self, work: Callable[[Frontier], _T], *, changes: bool = True) -> Step[_T]:
        """Return a step of a task: `result = await crawl.run(work)`. Raises what the work raises."""
        return Step(lambda done: self.submit(work, done, changes=changes))

    def close(self) -> None:
        """Do the work that waits, commit and close. Leases stay for the next run."""
        if not self._closing:
            self._closing = True
            self._inbox.put(_Work(None, _ignore, True))
        self._thread.join()

    # -- in the thread

    def _main(self) -> None:
        ended = failed = False
        while not ended:
            works = self._receive(None if failed else IDLE)  # what cannot be opened is tried again for the next work
            try:
                frontier = Frontier.open(self.folder, self._settings, keep_leases=True, program=SERVE)
            except BaseException as e:
                ended, failed = _fail(works, e), True
                continue
            failed = False
            self._settings = None  # from now on those that are stored
            try:
                while not ended:
                    ended = self._round(frontier, works)
                    works = [] if ended else self._receive(IDLE)
                frontier.close(end=RunEnd.EXIT)
            except BaseException as e:
                log.error("the frontier of crawl %r was closed by an error: %s", self.name, e)
        self._ended = True
        self._refuse()

    def _being_closed(self) -> FrontierClosed:
        return FrontierClosed(f"the crawl {self.name!r} is being closed")

    def _refuse(self) -> None:
        """Refuse the work that has come after the last."""
        with suppress(Empty):
            while True:
                self._inbox.get_nowait().done(None, self._being_closed())

    def _receive(self, timeout: float | None) -> list[_Work]:
        """Return the work that waits, none after some seconds without any."""
        try:
            works = [self._inbox.get(timeout=timeout)]
        except Empty:
            return []
        while works[-1].work is not None and len(works) < MOST_AT_ONCE and not self._inbox.empty():
            works.append(self._inbox.get())
        return works

    def _round(self, frontier: Frontier, works: list[_Work]) -> bool:
        """Do work, commit, and give the results; tell whether the thread ends. Raises if the frontier was closed.

        Then what was not committed has failed, and the work that is left as well.
        """
        if not works:
            frontier.lease(0)
            frontier.commit()
        answered, ended, end = 0, False, monotonic() + MOST_SECONDS
        results: list[tuple[Any, BaseException | None]] = []
        try:
            for work in works:
                if work.work is None:
                    ended = True
                    break
                results.append(_result(work.work, frontier))
                if monotonic() >= end:
                    self._commit(frontier, works[answered:], results)
                    answered += len(results)
                    results, end = [], monotonic() + MOST_SECONDS
            self._commit(frontier, works[answered:], results)
        except BaseException as e:
            _fail(works[answered:], e)
            raise
        return ended

    def _commit(self, frontier: Frontier, works: list[_Work], results: list[tuple[Any, BaseException | None]]) -> None:
        """Commit what the first works have changed, and give their results."""
        done = works[: len(results)]
        if any(work.changes for work in done):
            frontier.commit()
        for work, (result, error) in zip(done, results, strict=True):
            work.done(result, error)


def _result(work: Callable[[Frontier], Any], frontier: Frontier) -> tuple[Any, BaseException | None]:
    """Return what the work returns or raises. Raises if it has closed the frontier."""
    try:
        return work(frontier), None
    except Exception as e:
        if is_closed(frontier):
            raise
        return None, e


def _fail(works: list[_Work], error: BaseException) -> bool:
    """Give works an error; tell whether the end of the thread was among them."""
    for work in works:
        work.done(None, error)
    return any(work.work is None for work in works)


def _ignore(result: Any, error: BaseException | None) -> None:
    """Take the result of the last work of a thread."""
