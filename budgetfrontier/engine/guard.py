"""The guard of calls on a frontier: thread, time, commits and errors.

Any exception in the middle of an operation aborts to the last commit and closes the frontier, so that it is never left
with half an operation. For the same reason, signal handlers and `__del__` may not call a frontier in the middle of an
operation of the same thread: meanwhile its `owner` is INSIDE.

While URLs that `schedule` has admitted wait for their queues, it is GATHERING: any other call places them first, as do
commits. So nobody sees a frontier in which they are not there.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from time import monotonic
from typing import Any, Final, NoReturn, TypeVar

import lmdb

from budgetfrontier.clock import Clock
from budgetfrontier.core.model import CrawlState, Lease, RunEnd
from budgetfrontier.engine import arguments, native, turns
from budgetfrontier.engine.commit_schedule import CommitSchedule
from budgetfrontier.engine.frontier_time import FrontierTime
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.opening import Parts
from budgetfrontier.errors import (
    FrontierBusy,
    FrontierClosed,
    FrontierError,
    PolicyError,
    StorageFull,
    WrongThread,
    lease_ended,
)
from budgetfrontier.storage.lmdb_env import is_damage, translate_error

_T = TypeVar("_T")
_NO_COMMANDS_FAULT = (StorageFull, OSError, lmdb.Error)

REOPEN = (
    "Open it again: it is as of its last commit. If this happens again, see what `budgetfrontier verify` finds, and "
    "report it."
)

INSIDE: Final = -1
"""The owner of a frontier in the middle of an operation: no thread's."""
BROKEN: Final = -2
"""The owner of a frontier after a failed operation, until it is closed: at the next call if an error prevents that.

It is set without a call, which the recursion limit or a signal could prevent, too.
"""
GATHERING: Final = -3
"""The owner of a frontier in which URLs that were scheduled wait for their queues: until any call but `schedule`."""

ANSWERING: Final = -4
"""The owner of a frontier whose calls the kernel answers, until one needs more, or something is due: `Guard.answer`."""

_RUNNING: Final = CrawlState.RUNNING  # an Enum look-up costs 0.1 us in CPython 3.11
_BROKEN: Final = "this frontier was closed by an error in the end of which another came; open it again"

_open: weakref.WeakSet[Guard] = weakref.WeakSet()


def _nothing() -> None:
    """Do nothing: for a guard without a delivery of commands, as in the middle of the opening."""


def _after_fork() -> None:
    """Disown every frontier in a forked child, where writes would appear to succeed but have no effect."""
    for guard in list(_open):
        guard.owner = guard.thread = 0
        guard.forked = True


os.register_at_fork(after_in_child=_after_fork)


class Guard:
    """One open frontier from its opening to its end: its thread, its time, its transaction.

    A call begins with `enter` (or compares `owner` itself), does its work while `owner` is INSIDE, and ends with
    `leave` or `abort`.
    """

    def __init__(self, parts: Parts, clock: Clock, hooks: Hooks) -> None:
        self.kernel = parts.kernel
        self.tables = parts.kernel.tables
        self.commands = parts.commands
        self.hooks = hooks
        self.thread = get_ident()  # no thread's, once closed or in a forked child
        self.owner = self.thread  # nor in the middle of an operation: each call looks at this alone
        self.forked = False
        self.closed: str | None = None
        self.time = FrontierTime(clock, parts.now)
        self.now = self.time.now
        self.asked = 0.0
        """When URIs were asked for last that were not there; a commit stores it, and it needs none."""
        self.logged = parts.recorder is not None
        """Whether all changes go to a log first: `Changelog` commits them, and nothing else does."""
        self.on_look = _nothing
        """Looks at the disks once every commit interval: `DiskGuard`."""
        self._admitter = parts.admitter
        self.on_tick = self.on_underway = self.on_abort = self.on_close = _nothing
        """What `Delivery` does once every commit interval, before a lease while a command is in progress, when an error
        drops what was not committed, and at the end."""
        self.commits = CommitSchedule(parts.kernel.tables)
        self.watching: weakref.finalize[..., object] | None = None
        """Closes the files if the frontier is lost."""
        _open.add(self)

    def __repr__(self) -> str:
        if self.closed is not None:
            return f"<Guard {self.tables.env.path} closed: {self.closed}>"
        return f"<Guard {self.tables.env.path} of thread {self.thread}>"

    def enter(self) -> None:
        """Raise if a call is not allowed; every call begins with this."""
        if get_ident() != self.owner:
            self.reenter()

    def reenter(self) -> None:
        """Place the URLs that were gathered, or bring the totals up to date, before another call.

        Raises if the call is not allowed: see `refuse`.
        """
        if get_ident() == self.owner:
            return  # a signal handler has called the frontier since the caller looked
        if self.owner not in (GATHERING, ANSWERING) or get_ident() != self.thread:
            self.refuse()
        plain = self.kernel.turns.plain
        try:
            busy = self._admitter.is_busy() or (plain is not None and plain.kernel.is_busy())
            if not busy:
                self._take_back()
                self.owner = self.thread
        except BaseException as e:
            self.owner = BROKEN
            self.abort(e)
        if busy:
            raise FrontierBusy

    def _take_back(self) -> None:
        """End what was left to be done by a later call; the owner is INSIDE then."""
        self.owner = INSIDE
        self._count(self._admitter.place_gathered())
        self._settle_answers()
        if not self.kernel.counters.queued:
            self.settle()

    def _settle_answers(self) -> None:
        plain = self.kernel.turns.plain
        self._count(None if plain is None else plain.settle())

    def _count(self, answered: tuple[float, int] | None) -> None:
        """Count the calls that the kernel has answered: the time of the last one, and their operations."""
        if answered is not None:
            latest, operations = answered
            self.time.latest = max(self.time.latest, latest)  # tables may have asked for the time in one of them
            self.commits.changes += operations

    def of_calls(self, until: float, operations: int = 0) -> tuple[tuple[Any, ...], tuple[float, float, int, int]]:
        """Return what the kernel looks at in calls that it answers, before and after each.

        Clocks; the time from which on more has to be done, when a commit is due, and after how many operations and
        changed queues. `operations` were there that are not counted yet.
        """
        commits, time = self.commits, self.time
        clocks = time.read_clock, monotonic, time.skew, time.latest, time.horizon
        return clocks, (
            until,
            commits.next_tick,
            max(commits.most - commits.changes - operations, 0),
            self.tables.env.most_queues,
        )

    def answer(self) -> None:
        """Let the kernel answer the next calls, if they may need nothing but plain turns: it is the end of one of them.

        Until another one is called, or something is due.
        """
        plain = self.kernel.turns.plain
        if plain is None or self.owner != self.thread:
            return
        try:
            self.owner = INSIDE  # no signal handler changes what is looked at here
            if self.closed is not None or not self._may_answer():
                self.owner = self.thread
                return
            tables = self.tables
            until = min(tables.leases.next_expiry, tables.future.next_due)
            of_leases = tables.in_force.frontier.lease_ttl, tables.longest_delay, turns.MAX_DUE
            terms = self.kernel.counters.queued, *of_leases, self.hooks.waiting
            plain.begin((self.of_calls(until), terms))
            self.owner = ANSWERING
        except BaseException as e:
            self.owner = BROKEN
            self._abort(e)

    def _may_answer(self) -> bool:
        """Return whether plain turns are all that the next calls may need, as of now."""
        kernel, tables, counters = self.kernel, self.tables, self.kernel.counters
        return (
            tables.leases_plainly
            and tables.ends_plainly
            and counters.state is _RUNNING
            and not counters.revive_upto
            and not counters.regrade_upto
            and not kernel.underway
            and not tables.attentive
            and not self.commits.in_batch
            and not self.hooks.on_finish
        )

    def refuse(self) -> NoReturn:
        """Raise why a call is not allowed: another thread, a forked child, a closed frontier, or a call in progress."""
        if self.closed is not None and not self.forked:
            raise FrontierClosed(self.closed)
        if get_ident() == self.thread:
            if self.owner == INSIDE:
                raise FrontierBusy
            self.close(_BROKEN)
            raise FrontierClosed(self.closed)
        raise WrongThread

    def catch_up(self, now: float) -> None:
        """Prepare a lease: end expired leases, continue long commands, and return due URIs to their queues."""
        kernel = self.kernel
        kernel.catch_up(now)
        if kernel.underway and not self.commits.in_batch:
            self.on_underway()
        kernel.let_return(now)

    def settle(self) -> None:
        """Update the state of the crawl after a change."""
        counters, before = self.kernel.counters, self.kernel.counters.state
        if before is _RUNNING and counters.queued:
            return  # the common case: it is not empty
        if self.kernel.settle():
            self.hooks.paused_at_finish()
        if counters.state is not before:
            self.commits.changes += 1

    def leave(self, changes: int) -> None:
        """End a call that changed something: commit when it is time, then run the hooks."""
        if self.closed is not None:  # by a signal handler, at the end of the call
            self.refuse()
        try:
            if self.owner != self.thread:
                self._take_back()
            self.owner = INSIDE
            commits, queues, env = self.commits, self.tables.queues, self.tables.env
            commits.changes += changes
            if queues.overfull:
                queues.trim()
            full = commits.changes >= commits.most or env.due or len(queues.dirty) >= env.most_queues
            if full or monotonic() >= commits.next_tick:  # here, for a call would cost 1 % of a lease and its finish
                self.tick()
            self.owner = self.thread
            if self.hooks.waiting and not self.commits.in_batch:
                self.hooks.run()
        except BaseException as e:
            self.owner = BROKEN
            self._abort(e)

    def operate(self, operation: Callable[[], _T], *, changes: int = 1) -> _T:
        """Run one operation that is not on the hot path."""
        self.enter()
        try:
            self.owner = INSIDE
            result = operation()
            self.settle()
            self.owner = self.thread
        except BaseException as e:
            self.owner = BROKEN
            self.abort(e)
        self.leave(changes)
        return result

    def attempt(self, operation: Callable[[], _T]) -> _T:
        """Run code outside of a call, such as in the opening: an exception closes the frontier."""
        self.enter()
        try:
            self.owner = INSIDE
            result = operation()
            self.owner = self.thread
        except BaseException as e:
            self.owner = BROKEN
            self.abort(e)
        return result

    def read(self, reading: Callable[[], _T]) -> _T:
        """Return the result of a reading; its errors change nothing. Raises CorruptFrontier for damage."""
        self.enter()
        try:
            self.owner = INSIDE
            return reading()
        except Exception as e:
            if is_damage(e):
                raise translate_error(e, self.tables.env.path) from e
            raise
        finally:
            self.owner = self.thread

    def operate_on(self, lease: Lease, operation: Callable[[Lease, float], object], *, changes: int = 1) -> None:
        """Run one operation on a lease, which gets the frontier's own record of it, and the time.

        Leases that have expired end first. Raises LeaseExpired.
        """

        def on_mine() -> bool:
            now = self.now()
            self.kernel.lease_expiry.expire(now)
            mine = self.tables.leases.in_time(lease.id, now)
            if mine is None:
                return False
            operation(mine, now)
            return True

        if not self.operate(on_mine, changes=changes):
            raise lease_ended(lease.id, lease.uri.url)

    def tick(self) -> None:
        """Apply commands from the mailbox, and commit changes: once every commit interval."""
        if self.commits.in_batch:
            self.commits.check_batch()
            return
        self.on_tick()
        self.on_look()
        if self.kernel.rollout.waiting:
            self.kernel.rollout.step(self.now())
            self.settle()
        self.tables.env.check_place()  # for calls that change nothing, too
        series = self.tables.series
        if series.behind and self.now() >= series.due:
            self.commits.changes += 1  # an idle crawl writes its last row, too
        self.commit()
        self.tables.runs.touch()
        self.commits.begin_interval()

    def is_commit_due(self, operations: int) -> bool:
        """Return whether so many operations wait for a commit, or as much memory as should."""
        env = self.tables.env
        return self.commits.changes >= operations or env.due or len(self.tables.queues.dirty) >= env.most_queues

    def commit(self) -> None:
        """Commit and sync all changes."""
        if self.commits.has_changes:
            self.flush()
            self.tables.env.commit()
            self.committed()
        self.commits.begin()

    def flush(self) -> None:
        """Write all that is in memory into the transaction, as of now."""
        tables = self.tables
        self.hooks.before_commit()
        tables.counters.time = now = self.now()
        tables.counters.last_asked = max(tables.counters.last_asked, self.asked)
        tables.series.commit(now)
        if tables.filter is not None:
            tables.filter.fold_if_due()
        tables.flush()

    def committed(self) -> None:
        """Note that all that was written is durable."""
        tables = self.tables
        tables.queues.committed()
        if tables.filter is not None:
            tables.filter.committed()

    def lease(self, hand_out: Callable[[float], list[Lease]], wanted: int) -> list[Lease]:
        """Return the leases that `hand_out` makes as of the time that it is given, after all that comes before one."""

        def operation() -> list[Lease]:
            now = self.now()
            self.catch_up(now)
            leases = hand_out(now)
            self.commit_after_lease(len(leases), wanted)
            self.commits.changes += len(leases)
            return leases

        return self.operate(operation, changes=0)

    def commit_after_lease(self, leased: int, wanted: int) -> None:
        """Commit if a lease has found nothing, or has more to do after moving many queues."""
        if not leased:
            self.settle()
            if wanted:
                self.asked = self.time.latest
        if not self.commits.in_batch and self.commits.is_due_after_lease(
            leased, wanted, cut_short=self.kernel.turns.cut_short
        ):
            self.commit()

    def materialize(self, given: Iterable[_T], what: str = "URIs") -> list[_T]:
        """Return the items of a caller's iterable. Its errors change nothing, but Ctrl-C closes the frontier."""
        arguments.several(given, what)
        try:
            found = list(given)
        except Exception:
            raise
        except BaseException as e:
            self.owner = BROKEN
            self.abort(e)
        self.enter()  # it may have closed the frontier
        return found

    def abort(self, error: BaseException) -> NoReturn:
        """Drop everything since the last commit and close: never half an operation.

        A PolicyError is different: policies are called before anything is changed, so the frontier stays open. The call
        then ends as others do, because a caller may continue with such calls only.
        """
        if isinstance(error, PolicyError):
            self.leave(1)
        self._abort(error)

    def _abort(self, error: BaseException) -> NoReturn:
        if isinstance(error, PolicyError):
            if self.owner != GATHERING:  # by a hook
                self.owner = self.thread
            raise error
        try:
            self._settle_answers()
        except BaseException as e:  # it must be closed all the same
            error = e
        error = native.panic(error) or error
        path = self.tables.env.path
        if not isinstance(error, Exception) or isinstance(error, _NO_COMMANDS_FAULT):
            self.on_abort()
        self._note_failure(error)
        self.close(f"this frontier was closed by an error ({type(error).__name__}: {error}); open it again")
        if is_damage(error):
            raise translate_error(error, path) from error
        if isinstance(error, Exception) and not isinstance(error, FrontierError | OSError):
            error.add_note(f"The frontier {path} was closed. {REOPEN}")
        raise error

    def _note_failure(self, error: BaseException) -> None:
        """Leave a note of the end of the run beside the frontier, where nothing of it is stored."""
        if not self.logged:
            self.tables.runs.fail(error, self.time.latest, leased=self.tables.leases.given_out)

    def drop(self, error: BaseException) -> None:
        """Drop everything since the last commit and close, because an atomic batch has failed."""
        self.on_abort()
        self._note_failure(error)
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self.close(f"this frontier was closed because an atomic batch has failed ({what}); open it again")

    def end(self, *, keep_leases: bool, end: RunEnd | None, reason: str) -> None:
        """Give the leases back, unless they are kept, store how the run ended, commit and close.

        A frontier whose changes go to a log is closed as of its last commit. A second call does nothing. Raises if the
        call is not allowed: see `refuse`.
        """
        if self.closed is not None and not self.forked:
            return
        if self.owner == BROKEN and get_ident() == self.thread:
            self.close(_BROKEN)
            return
        self.enter()
        if self.commits.in_batch and not self.logged:
            self.drop(FrontierError("`close` was called in it"))
            return
        if not self.logged:
            self.attempt(lambda: self._commit_last(end, reason, keep_leases=keep_leases))
        self.close("this frontier was closed; open it again")

    def _commit_last(self, end: RunEnd | None, reason: str, *, keep_leases: bool) -> None:
        if not keep_leases:
            self.kernel.lease_expiry.give_back(list(self.tables.leases.out.values()), self.now())
            self.settle()
        self.end_run(end, reason)
        self.commit()

    def end_run(self, end: RunEnd | None, reason: str) -> None:
        """Write how the run has ended, and the last row of the totals."""
        state = self.kernel.counters.state
        leased, asked = self.tables.leases.given_out, self.asked > 0
        is_run = self.tables.runs.end(end, reason, self.now(), leased=leased, asked=asked, crawl=state)
        self.commits.changes += 1  # the time of the end is stored, whatever else has changed
        self.tables.series.end(self.now(), is_run=is_run)

    def close(self, why: str) -> None:
        """Close the files; uncommitted changes are dropped."""
        try:
            self._release(why)
        except BaseException:  # Ctrl-C while closing: parts that are already closed can be closed again
            self._release(why)
            raise

    def _release(self, why: str) -> None:
        self.closed = self.closed or why
        self.owner = self.thread = 0
        if self.watching is not None:
            self.watching.detach()
        _open.discard(self)
        self.hooks.waiting.clear()
        with contextlib.suppress(lmdb.Error):
            self.tables.env.close()
        if self.tables.filter is not None:
            self.tables.filter.close()
        self.on_close()
