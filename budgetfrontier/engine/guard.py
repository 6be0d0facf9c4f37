"""The guard of calls on a frontier: their thread, their time, when they commit, and how they end.

Any exception in the middle of an operation aborts to the last commit and closes the frontier, so that it is never left
with half an operation.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import NoReturn, TypeVar

import lmdb

from budgetfrontier.clock import Clock
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.engine.commands.runner import STARTS, STEP, CommandRun, Runner
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.opening import Parts
from budgetfrontier.errors import FrontierClosed, FrontierError, PolicyError, StorageFull, WrongThread
from budgetfrontier.model import CrawlUri
from budgetfrontier.store import keys, meta
from budgetfrontier.store.lmdb_env import is_damage, translate_error
from budgetfrontier.store.records import Counters, encode

_T = TypeVar("_T")
_NOBODYS_FAULT = (StorageFull, OSError, lmdb.Error)

REOPEN = (
    "Open it again: it is as of its last commit. If this happens again, see what `budgetfrontier verify` finds, and "
    "report it."
)

_open: weakref.WeakSet[Guard] = weakref.WeakSet()


def _after_fork() -> None:
    """Disown every frontier in a forked child, whose writes would only seem to work."""
    for guard in list(_open):
        guard.owner, guard.forked = 0, True
        guard.tables.env.disown()


os.register_at_fork(after_in_child=_after_fork)


class Guard:
    """One open frontier from its opening to its end: its thread, its transaction, its mailbox.

    A call asks `enter` (or compares `owner` itself), does its work, and ends with `leave`, or with `abort`.
    """

    def __init__(self, parts: Parts, clock: Clock, hooks: Hooks) -> None:
        self.kernel = parts.kernel
        self.tables = parts.kernel.tables
        self.commands = parts.commands
        self.hooks = hooks
        self.owner = get_ident()  # no thread's, once closed or in a forked child: each call looks at this alone
        self.forked = False
        self.closed: str | None = None
        self._clock = clock
        self._last_time = parts.now
        self._skew = 0.0
        self._mailbox = None if parts.kernel.tables.env.memory else Mailbox(parts.path)
        if self._mailbox is not None:
            self._mailbox.begin_after(_last_known(parts.kernel.counters, self.commands))
        self.changes = 0
        """Operations since the last commit."""
        self._begin()
        self._next_tick = time.monotonic() + parts.kernel.tables.in_force.frontier.commit_interval
        _open.add(self)

    def __repr__(self) -> str:
        if self.closed is not None:
            return f"<Guard {self.tables.env.path} closed: {self.closed}>"
        return f"<Guard {self.tables.env.path} of thread {self.owner}, {self.changes} changes since the last commit>"

    def enter(self) -> None:
        """Refuse a call that may not go on; every call begins with this."""
        if get_ident() != self.owner:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Say why a call may not go on: not from its thread, or from a forked child, or after it was closed."""
        if self.closed is not None and not self.forked:
            raise FrontierClosed(self.closed)
        raise WrongThread

    def now(self) -> float:
        """Return the time in epoch seconds, which never goes backwards."""
        now = self._clock.time() + self._skew
        if now < self._last_time:  # within a run time never goes backwards: set back, it goes on from where it was
            self._skew += self._last_time - now
            return self._last_time
        self._last_time = now
        return now

    def settle(self) -> None:
        """Let the crawl's state follow what happened."""
        counters = self.kernel.counters
        before = counters.state
        if self.kernel.settle():
            self.hooks.paused_at_finish()
        if counters.state is not before:
            self.changes += 1

    def leave(self, changes: int) -> None:
        """End a call that changed something: commit when it is time, then run the hooks."""
        try:
            self.changes += changes
            env, queues = self.tables.env, self.tables.queues
            if queues.overfull:
                queues.trim()
            due = self.changes >= self._most or env.due or len(queues.dirty) >= env.most_queues
            if due or time.monotonic() >= self._next_tick:
                self.tick()
            if self.hooks.waiting:
                self.hooks.run()
        except BaseException as e:
            self._abort(e)

    def operate(self, operation: Callable[[], _T], *, changes: int = 1) -> _T:
        """Run one operation that is not on the hot path."""
        self.enter()
        try:
            result = operation()
            self.settle()
        except BaseException as e:
            self.abort(e)
        self.leave(changes)
        return result

    def tick(self) -> None:
        """Look at the mailbox, and commit what has changed: once every commit interval."""
        self.read_mailbox()
        if self.kernel.rollout.waiting:
            self.kernel.rollout.step()
            self.settle()
        self.commit()
        self._next_tick = time.monotonic() + self.tables.in_force.frontier.commit_interval

    def commit(self) -> None:
        """Make what has changed durable."""
        tables = self.tables
        if self.changes or tables.queues.has_changed:
            self.hooks.before_commit()
            tables.counters.time = self.now()
            tables.flush()
            tables.env.commit()
            tables.queues.committed()
        self._begin()

    def _begin(self) -> None:
        room = self.tables.env.operations
        self.changes = 0
        self._most = min(self.tables.in_force.frontier.commit_operations or room, room)

    def read_mailbox(self) -> None:
        """Go on with a command that takes long; apply those that have come since the last look, up to such a one."""
        if self.commands.job is not None:
            self.go_on()
        if self._mailbox is None:
            return
        waiting = self._mailbox.waiting(self.kernel.counters.command)
        if waiting:
            before = self.kernel.counters.command
            self._apply_in_order(waiting)
            if self.commands.job is not None:
                self._let_overtake(waiting)
            self.changes += 1
            self.commit()
            if self.kernel.counters.command > before:
                self._mailbox.done(self.kernel.counters.command)

    def _apply_in_order(self, waiting: list[tuple[int, Command]]) -> None:
        """Apply commands until one takes long. Processes that die of one are counted, until it is known which it is."""
        counters, commands = self.kernel.counters, self.commands
        one_by_one = counters.starts > 0
        counted = False
        for number, command in waiting:
            if commands.job is not None:
                return
            if commands.passed(number):
                continue
            if counters.trying == number and counters.starts >= STARTS:
                commands.set_aside(self.now(), number, command)
            else:
                if not counted:
                    self._count_start(number)
                    counted = not one_by_one
                commands.begin(command, number, self.now())
            self.settle()
            self._end_start()
            if one_by_one:
                self.changes += 1
                self.commit()

    def _let_overtake(self, waiting: list[tuple[int, Command]]) -> None:
        """Apply those that overtake the command in progress; a pause does not overtake a `resume`."""
        counters, resumes = self.kernel.counters, False
        job = self.commands.job
        for number, command in waiting:
            resumes |= command.op == "resume"
            may = command.op == "terminate" or (command.op == "pause" and not resumes)
            if may and number not in counters.ahead and job is not None and number > job.begun.number:
                self.commands.begin(command, number, self.now())
                self.settle()

    def go_on(self) -> None:
        """Take the next step of the command in progress."""
        counters, commands = self.kernel.counters, self.commands
        inherited, job = commands.inherited, commands.job
        if job is None:
            return
        if inherited and counters.trying == job.begun.number and counters.starts >= STARTS:
            commands.set_aside(self.now())
        else:
            if inherited:
                self._count_start(job.begun.number)
            commands.step(self.now())
        self.settle()
        self.changes += STEP
        if inherited:  # that it did not die of the first step must be known before the next
            self._end_start()
            self.commit()

    def _count_start(self, number: int) -> None:
        """Note on disk that a command is begun, or gone on with, in case that this process dies of it."""
        counters = self.kernel.counters
        counters.starts = counters.starts + 1 if counters.trying == number else 1
        counters.trying = number
        self.changes += 1
        self.commit()

    def _end_start(self) -> None:
        self.kernel.counters.trying = self.kernel.counters.starts = 0

    def begin(self, command: Command, number: int) -> CommandRun:
        """Apply a command of the API's, a long one for one step."""
        job = self.commands.begin(command, number, self.now())
        if job.entry is None:
            self.changes += STEP
        return job

    def materialize(self, uris: Iterable[str | CrawlUri]) -> list[str | CrawlUri]:
        """Return the items of a caller's iterable. Its errors change nothing, but Ctrl-C closes the frontier."""
        if isinstance(uris, str | bytes):
            raise TypeError("this takes an iterable of URIs; one alone goes into a list")
        try:
            found = list(uris)
        except Exception:
            raise
        except BaseException as e:
            self.abort(e)
        self.enter()  # it may have closed the frontier
        return found

    def abort(self, error: BaseException) -> NoReturn:
        """Drop everything since the last commit and close: never half an operation.

        A policy that failed is another matter: it is asked before anything is changed, and the frontier stays open. The
        call ends as others do, for a caller may go on with such calls alone.
        """
        if isinstance(error, PolicyError):
            self.leave(1)
        self._abort(error)

    def _abort(self, error: BaseException) -> NoReturn:
        if isinstance(error, PolicyError):
            raise error
        path = self.tables.env.path
        if self.kernel.counters.starts and (not isinstance(error, Exception) or isinstance(error, _NOBODYS_FAULT)):
            self._excuse()
        self.close(f"this frontier was closed by an error ({type(error).__name__}: {error}); open it again")
        if is_damage(error):
            raise translate_error(error, path) from error
        if isinstance(error, Exception) and not isinstance(error, FrontierError | OSError):
            error.add_note(f"The frontier {path} was closed. {REOPEN}")
        raise error

    def _excuse(self) -> None:
        """Count no start against the command that was begun, which is not to blame, if that can still be written."""
        kernel, db = self.kernel, self.tables.env.db[keys.META]
        with contextlib.suppress(Exception):
            kernel.tables.env.abort()
            with kernel.tables.env.env.begin(write=True) as txn:
                stored = meta.read_counters(txn, db)
                stored.trying = stored.starts = 0
                txn.put(b"counters", encode(stored), db=db)

    def close(self, why: str) -> None:
        """Let go of the files; what was not committed is dropped."""
        try:
            self._release(why)
        except BaseException:  # Ctrl-C in the middle of closing: what is closed already takes it twice
            self._release(why)
            raise

    def _release(self, why: str) -> None:
        self.closed = self.closed or why
        self.owner = 0
        _open.discard(self)
        self.hooks.waiting.clear()
        with contextlib.suppress(lmdb.Error):
            self.tables.env.close()
        if self._mailbox is not None:
            self._mailbox.close()


def _last_known(counters: Counters, commands: Runner) -> int:
    """Return the highest number of a command that was begun."""
    begun = 0 if commands.job is None else commands.job.begun.number
    return max(counters.command, begun, *counters.ahead)
