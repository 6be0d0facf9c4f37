"""What makes a call on a frontier safe: whose it is, what time it is, when it commits, and how it ends.

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
from budgetfrontier.engine import adjustments
from budgetfrontier.engine.hooks import Hooks
from budgetfrontier.engine.mailbox import Command, Mailbox
from budgetfrontier.engine.opening import Parts
from budgetfrontier.errors import FrontierClosed, FrontierError, WrongThread
from budgetfrontier.model import CrawlUri, Tally
from budgetfrontier.store.environment import explain, is_damage
from budgetfrontier.store.records import AuditEntry

_T = TypeVar("_T")

_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child's writes would seem to work: let it do none."""
    for session in list(_open):
        session.owner, session.forked = 0, True
        session.kernel.env.disown()


os.register_at_fork(after_in_child=_after_fork)


class Session:
    """One open frontier from its opening to its end: its thread, its transaction, its mailbox.

    A call asks `enter` (or compares `owner` itself), does its work, and ends with `leave`, or with `abandon`.
    """

    def __init__(self, parts: Parts, clock: Clock, hooks: Hooks) -> None:
        self.kernel = parts.kernel
        self.intake = parts.intake
        self.hooks = hooks
        self.owner = get_ident()  # no thread's, once closed or in a forked child: each call looks at this alone
        self.forked = False
        self.closed: str | None = None
        self._clock = clock
        self._last_time = parts.now
        self._skew = 0.0
        self._mailbox = None if parts.kernel.env.memory else Mailbox(parts.path)
        if self._mailbox is not None:
            self._mailbox.begin_after(parts.kernel.counters.command)
        self.changes = 0
        """Operations since the last commit."""
        self._begin()
        self._next_tick = time.monotonic() + parts.kernel.force.frontier.commit_interval
        _open.add(self)

    def enter(self) -> None:
        """Every call begins with this."""
        if get_ident() != self.owner:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Say why a call may not go on: not from its thread, or from a forked child, or after it was closed."""
        if self.closed is not None and not self.forked:
            raise FrontierClosed(self.closed)
        raise WrongThread

    def now(self) -> float:
        """The time in epoch seconds."""
        now = self._clock.time() + self._skew
        if now < self._last_time:  # within a run time never goes backwards: set back, it goes on from where it was
            self._skew += self._last_time - now
            return self._last_time
        self._last_time = now
        return now

    def settle(self) -> None:
        """Let the crawl's state follow what happened."""
        if self.kernel.settle():
            self.hooks.paused_at_finish()

    def leave(self, changes: int) -> None:
        """Every call that changed something ends with this: commits when it is time, then runs the hooks."""
        try:
            self.changes += changes
            kernel = self.kernel
            due = self.changes >= self._most or kernel.env.due or len(kernel.queues.dirty) >= kernel.env.most_queues
            if due or time.monotonic() >= self._next_tick:
                self.tick()
            if self.hooks.waiting:
                self.hooks.run()
        except BaseException as e:
            self.abandon(e)

    def operate(self, operation: Callable[[], _T], *, changes: int = 1) -> _T:
        """Run one operation that is not on the hot path."""
        self.enter()
        try:
            result = operation()
            self.settle()
        except BaseException as e:
            self.abandon(e)
        self.leave(changes)
        return result

    def tick(self) -> None:
        """Look at the mailbox, and commit what has changed: once every commit interval."""
        self.read_mailbox()
        self.kernel.backlog.step()
        self.commit()
        self._next_tick = time.monotonic() + self.kernel.force.frontier.commit_interval

    def commit(self) -> None:
        """Make what has changed durable."""
        kernel = self.kernel
        if self.changes or kernel.queues.dirty:
            self.hooks.before_commit()
            kernel.flush()
            kernel.env.commit()
            kernel.queues.trim()
        self._begin()

    def _begin(self) -> None:
        room = self.kernel.env.operations
        self.changes = 0
        self._most = min(self.kernel.force.frontier.commit_operations or room, room)

    def read_mailbox(self) -> None:
        """Apply the commands that have come since the last look."""
        if self._mailbox is None:
            return
        waiting = self._mailbox.waiting(self.kernel.counters.command)
        for number, command in waiting:
            self.apply(number, command)
            self.settle()
        if waiting:
            self.changes += 1
            self.commit()
            self._mailbox.done(waiting[-1][0])

    def apply(self, number: int, command: Command) -> AuditEntry:
        """Apply one command and audit it; one that is refused changes nothing."""
        kernel = self.kernel
        entry = AuditEntry(0, command.op, command.args, command.who, self.now(), command.reason, {}, number=number)
        try:
            adjustments.check_command(command.op, command.args)
        except Exception as e:  # nothing was changed: a command that cannot be applied must not end the engine
            entry.error = f"{command.op}: {e if str(e) else type(e).__name__}"
        try:
            if entry.error:
                pass
            elif command.op in ("schedule", "mark_seen"):
                tally, uris = Tally(), map(adjustments.uri_from, command.args["uris"])
                if command.op == "schedule":
                    self.intake.take(uris, tally, entry.when)
                else:
                    self.intake.note(uris, tally, charge=bool(command.args.get("charge")))
                entry.args = {**command.args, "uris": len(command.args["uris"])}
                entry.effect = {name: getattr(tally, name) for name in tally.__slots__}
            elif command.op in adjustments.OPERATIONS:
                entry.effect = adjustments.OPERATIONS[command.op](kernel, command.args, entry.when)
            else:
                entry.error = f"unknown command {command.op!r}; this engine knows {', '.join(adjustments.OPERATIONS)}"
        except FrontierError as e:
            entry.error = str(e)
        kernel.counters.command = max(kernel.counters.command, number)
        if number or not command.args.get("dry_run"):
            adjustments.record(kernel, entry)
        return entry

    def given(self, uris: Iterable[str | CrawlUri]) -> list[str | CrawlUri]:
        """What the caller's iterable gives. Its own errors change nothing; Ctrl-C ends the frontier as everywhere."""
        if isinstance(uris, str | bytes):
            raise TypeError("this takes an iterable of URIs; one alone goes into a list")
        try:
            return list(uris)
        except Exception:
            raise
        except BaseException as e:
            self.abandon(e)

    def abandon(self, error: BaseException) -> NoReturn:
        """Drop everything since the last commit and close: never half an operation."""
        path = self.kernel.env.path
        self.shut(f"this frontier was closed by an error ({type(error).__name__}: {error}); open it again")
        if is_damage(error):
            raise explain(error, path) from error
        raise error

    def shut(self, why: str) -> None:
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
            self.kernel.env.close()
        if self._mailbox is not None:
            self._mailbox.close()
