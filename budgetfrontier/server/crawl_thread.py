"""The thread of a crawl: it owns the frontier, does work in order, and commits before the results go out."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep, time
from typing import Any, NamedTuple, TypeVar

from budgetfrontier.core.model import CrawlState, RunEnd
from budgetfrontier.engine.bulk_finish import is_closed
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierClosed, FrontierError, FrontierLocked, FrontierRemoved
from budgetfrontier.rules.run_history import SERVE
from budgetfrontier.server.tasks import CallbackStep, Done
from budgetfrontier.settings import Settings
from budgetfrontier.storage.damage import in_a_line
from budgetfrontier.storage.reader import Reader

_T = TypeVar("_T")

MOST_SECONDS = 0.1
"""Seconds of work between two commits, at least one piece: waiting work shares a commit."""
MOST_AT_ONCE = 1000
"""Pieces of work that are taken together."""
IDLE = 0.5
"""Seconds without work before a look at the mailbox, and at expired and due entries."""
MOST_OPEN = 1000
"""Threads above which crawls are closed that were not used for `CROWDED` seconds: many more would hinder each other."""
CROWDED = 1.0
PATIENCE = 5.0
"""Seconds for which a frontier is waited for that a command has opened."""
LOOK_AGAIN = 0.02
"""Seconds between two looks whether it is closed."""

log = logging.getLogger("budgetfrontier.service")


class _QueuedWork(NamedTuple):
    work: Callable[[Frontier], Any] | None
    done: Done
    changes: bool
    soon: bool = False


class _WorkQueue:
    """The work that waits, in order, urgent work first."""

    def __init__(self, works: list[_QueuedWork]) -> None:
        self.soon: deque[_QueuedWork] = deque()
        self._others: deque[_QueuedWork] = deque()
        self.closing = False
        """Whether no work comes after this."""
        for work in works:
            self.add(work)

    def __bool__(self) -> bool:
        return bool(self.soon or self._others)

    def add(self, work: _QueuedWork) -> None:
        """Add the work that has come last."""
        (self.soon if work.soon else self._others).append(work)
        self.closing |= work.work is None

    def next(self) -> _QueuedWork:
        """Take the first."""
        return (self.soon or self._others).popleft()

    def all(self) -> list[_QueuedWork]:
        return [*self.soon, *self._others]


class _Rest(NamedTuple):
    """The state of a frontier closed as unused."""

    until: float
    """The time at which something may be leased."""
    changed: int
    """The modification time of its file: other programs may change it."""


class CrawlThread:
    """A crawl with its frontier in a thread of its own, which opens it. `submit` may be called in any thread.

    The results of work that changes something go out once the changes are on disk: acknowledged work survives a crash.
    All work that arrives during a commit shares the next one. A frontier that an error has closed, such as a full disk,
    is opened again for the next work. If unused for `close_after` seconds (inf: never) it is closed, earlier if very
    many are open, and its thread ends; the next work starts another. `settings` returns those of a new frontier, and
    `opened` is called with an existing one.

    If the files of the frontier are removed or replaced, the work in progress fails, `removed` is called, and no more
    is done: the next use of the crawl starts another thread for the files there then.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        settings: Callable[[], Settings],
        *,
        close_after: float = inf,
        opened: Callable[[Frontier], None] = lambda frontier: None,
        removed: Callable[[CrawlThread], None] = lambda crawl: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self._settings = settings
        self._opened = opened
        self._removed = removed
        self._close_after = close_after
        self._inbox: SimpleQueue[_QueuedWork] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = self._ended = False
        self._why_ended: FrontierError | None = None
        self._end: tuple[RunEnd, str] = RunEnd.EXIT, ""
        self._used = monotonic()
        self._rest: _Rest | None = None
        self._patience = PATIENCE

    def submit(
        self,
        work: Callable[[Frontier], Any],
        done: Done,
        *,
        changes: bool = True,
        uses: bool = True,
        soon: bool = False,
    ) -> None:
        """Let the thread call `work(frontier)`, then `done(result, None)` or `done(None, error)`.

        If it `changes` something, `done` is called after a commit. It must be short, and raise nothing. Work that
        `uses` the crawl keeps it open. Work needed `soon` goes before other work, and is committed at once.
        """
        if self._closing:
            done(None, self._being_closed())
            return
        if uses:
            self.use()
        self._inbox.put(_QueuedWork(work, done, changes, soon))
        if self._thread is None:
            self._start()
        if self._ended:
            self._refuse(self._being_closed())

    def run(
        self, work: Callable[[Frontier], _T], *, changes: bool = True, uses: bool = True, soon: bool = False
    ) -> CallbackStep[_T]:
        """Return a step of a task: `result = await crawl.run(work)`. Raises the work's error."""
        return CallbackStep(lambda done: self.submit(work, done, changes=changes, uses=uses, soon=soon))

    def use(self) -> None:
        """Note that somebody uses the crawl."""
        self._used = monotonic()

    @property
    def is_open(self) -> bool:
        """Whether its thread runs, which has the frontier open, or opens it."""
        return self._thread is not None and not self._ended

    @property
    def is_resting(self) -> bool:
        """Whether the frontier is closed, and known to have nothing to lease."""
        rest = self._rest
        if rest is None or self._thread is not None or time() >= rest.until:
            return False
        return _changed(self.folder) == rest.changed

    def end_if_removed(self) -> bool:
        """Do nothing more if the frontier was closed as unused, and removed since; return whether it was."""
        with self._lock:
            if self._thread is None and self._rest is not None and not _changed(self.folder):
                self._closing = self._ended = True
                self._why_ended = FrontierRemoved(f"the frontier of crawl {self.name!r} was removed")
        if self._ended:
            self._refuse(self._being_closed())
        return self._ended

    def close(self, *, wait: bool = True, end: RunEnd = RunEnd.EXIT, reason: str = "") -> None:
        """Do the work that waits, commit and close. Leases stay for the next run; `end` goes to the history."""
        with self._lock:
            thread = self._thread
            if not self._closing:
                self._closing, self._end = True, (end, reason)
                self._inbox.put(_QueuedWork(None, _ignore, True))
            self._ended |= thread is None
        if thread is None:
            self._refuse(self._being_closed())
        elif wait:
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._main, name=f"crawl {self.name}", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as e:
                    self._thread = None
                    self._refuse(FrontierError(f"there cannot be more threads ({e}); raise the limit of processes"))

    # -- in the thread

    def _main(self) -> None:
        ended = False
        while not ended and not self._leaves():
            works = self._receive(0.0)
            try:
                frontier = self._open()
            except BaseException as e:
                ended = _fail(works, e)
                continue
            try:
                while not ended:
                    ended = self._round(frontier, works)
                    if not ended and self._is_idle(works):
                        break
                    works = [] if ended else self._receive(IDLE)
                self._close(frontier, ended=ended)
            except BaseException as e:
                log.error(
                    "the frontier of crawl %r was closed by an error: %s",
                    self.name,
                    in_a_line(e),
                    extra={"event": "crawl_failed", "crawl": self.name},
                )
                ended = self._is_over(e)
        if ended:
            self._ended = True
            self._refuse(self._being_closed())

    def _is_over(self, error: BaseException) -> bool:
        """Return whether an error ends the thread, because the frontier was removed: then the crawl is forgotten."""
        if isinstance(error, FrontierRemoved) and self._why_ended is None:
            self._why_ended, self._closing = error, True
            self._removed(self)
        return self._why_ended is not None

    def _leaves(self) -> bool:
        with self._lock:
            thread, self._thread = self._thread, None  # first: who puts work from now on waits to start another
            if self._inbox.empty():
                return True
            self._thread = thread
        return False

    def _open(self) -> Frontier:
        """Open the frontier, or create it; a command that has it open is waited for, once until it was opened."""
        self._rest = None
        until = monotonic() + self._patience
        while True:
            settings = None if (self.folder / "data.mdb").is_file() else self._settings()
            try:
                frontier = Frontier.open(self.folder, settings, keep_leases=True, program=SERVE)
            except FrontierLocked:
                if monotonic() < until and not self._closing:
                    sleep(LOOK_AGAIN)
                    continue
                self._patience = 0.0
                raise
            self._patience = PATIENCE
            new = settings is not None
            if not new:
                try:
                    self._opened(frontier)
                except BaseException:
                    frontier.close()
                    raise
            log.info(
                "crawl %r was %s",
                self.name,
                "created" if new else "opened",
                extra={"event": "crawl_created" if new else "crawl_opened", "crawl": self.name},
            )
            return frontier

    def _is_idle(self, works: list[_QueuedWork]) -> bool:
        """Return whether nobody has used the crawl for a while, and no command is in progress."""
        after = self._close_after
        if threading.active_count() > MOST_OPEN:
            after = min(after, CROWDED)
        if works or monotonic() < self._used + after or not self._inbox.empty():
            return False
        with Reader(self.folder) as reader:
            return reader.in_progress() is None

    def _close(self, frontier: Frontier, *, ended: bool) -> None:
        if ended:
            end, reason = self._end
            frontier.close(end=end, reason=reason)
            log.info("crawl %r was closed", self.name, extra={"event": "crawl_closed", "crawl": self.name})
            return
        ready_in = frontier.next_ready_in() if frontier.state is CrawlState.RUNNING else None
        until = inf if ready_in is None else time() + ready_in
        frontier.close(reason="nobody used it; `budgetfrontier serve` opens it again for who does")
        self._rest = _Rest(until, _changed(self.folder))
        log.info("crawl %r was closed: nobody used it", self.name, extra={"event": "crawl_closed", "crawl": self.name})

    def _being_closed(self) -> FrontierError:
        return self._why_ended or FrontierClosed(f"the crawl {self.name!r} is being closed")

    def _refuse(self, error: FrontierError) -> None:
        with suppress(Empty):
            while True:
                self._inbox.get_nowait().done(None, error)

    def _receive(self, timeout: float) -> list[_QueuedWork]:
        try:
            works = [self._inbox.get(timeout=timeout)]
        except Empty:
            return []
        while works[-1].work is not None and len(works) < MOST_AT_ONCE and not self._inbox.empty():
            works.append(self._inbox.get())
        return works

    def _round(self, frontier: Frontier, works: list[_QueuedWork]) -> bool:
        """Do work, commit, and give the results; return whether the thread ends. Raises if the frontier was closed.

        Then uncommitted and remaining work has failed. Work that arrives meanwhile is done too.
        """
        if not works:
            frontier.lease(0)
            frontier.commit()
        waiting = _WorkQueue(works)
        done: list[_QueuedWork] = []
        results: list[tuple[Any, BaseException | None]] = []
        hurried = ended = False
        try:
            while waiting and not ended:
                end, soon, others = monotonic() + MOST_SECONDS, False, False
                while waiting and monotonic() < end:
                    work = waiting.next()
                    done.append(work)
                    if work.work is None:
                        ended = True
                        break
                    results.append(_result(work.work, frontier))
                    if not waiting and not work.soon:
                        sleep(0)  # so that the server's thread hands over what has arrived, which shares the commit
                    while not waiting.closing and not self._inbox.empty():
                        waiting.add(self._inbox.get())
                    soon, others = soon or work.soon, others or not work.soon
                    if soon and not waiting.soon and (others or not hurried):
                        break
                hurried = not others  # then other work is next, however much there is that has to be done soon
                self._commit(frontier, done, results)
                done, results = [], []
        except BaseException as e:
            self._is_over(e)  # before they get it: a new try finds the files there now
            _fail([*done, *waiting.all()], e)
            raise
        return ended

    def _commit(
        self, frontier: Frontier, works: list[_QueuedWork], results: list[tuple[Any, BaseException | None]]
    ) -> None:
        done = works[: len(results)]
        if any(work.changes for work in done):
            frontier.commit()
        for work, (result, error) in zip(done, results, strict=True):
            work.done(result, error)


def _result(work: Callable[[Frontier], Any], frontier: Frontier) -> tuple[Any, BaseException | None]:
    """Return the work's result or error. Raises if it has closed the frontier."""
    try:
        return work(frontier), None
    except Exception as e:
        if is_closed(frontier):
            raise
        return None, e


def _fail(works: list[_QueuedWork], error: BaseException) -> bool:
    """Give works an error; return whether the end of the thread was among them."""
    for work in works:
        work.done(None, error)
    return any(work.work is None for work in works)


def _changed(folder: Path) -> int:
    """Return the modification time of the file of a frontier; 0 if there is none."""
    try:
        return (folder / "data.mdb").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _ignore(result: Any, error: BaseException | None) -> None:
    """Take the result of the last work of a thread."""
