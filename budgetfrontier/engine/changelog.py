"""The changelog of a partition's frontier: what its owner has decided, as changes of rows, for the partition's log.

The owner applies calls as in any frontier, but nothing is committed on its own: `take` gives the changes, which go into
the log, and `commit` makes them durable here once the log has them. Whoever applies the changes to a copy has the same
tables (`storage.table_changes`), and may open a frontier on it that goes on where the owner was.
"""

from __future__ import annotations

from math import inf

from budgetfrontier.core.model import RunEnd
from budgetfrontier.engine.atomic import MOST_OPERATIONS
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.delivery import Delivery
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.peer_table import PeerTable
from budgetfrontier.errors import CommandInProgress, FrontierError
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.table_changes import Recorder


class Changelog:
    """The changes of a frontier that was opened with `partition`: `Frontier.internals.changelog`.

    Calls may go on while what was taken is on its way to the log. If the log refuses it, because the partition has
    another owner, `drop` throws away all since the last `commit`: the transaction is aborted, and no call that came
    since may be answered. That is why `commit` is allowed only when the log has everything.
    """

    def __init__(self, guard: Guard, delivery: Delivery, recorder: Recorder) -> None:
        self._guard = guard
        self._delivery = delivery
        self._recorder = recorder
        self._table = guard.tables.env.db[keys.META]
        self._taken = self._soon = 0
        """The operations as of the last `take`, and those from which the transaction is full."""
        self._begin()
        guard.commits.changes += 1  # the opening
        self._is_first = True

    def __repr__(self) -> str:
        return f"<Changelog of {self._guard!r}: {self._recorder!r}>"

    def _begin(self) -> None:
        commits = self._guard.commits
        commits.begin()
        self._soon = min(commits.most, MOST_OPERATIONS // 2)
        commits.begin_batch(MOST_OPERATIONS)
        self._taken = commits.changes

    # -- to the log

    @property
    def has_changes(self) -> bool:
        """Whether `take` would return something: a partition in which nothing happens writes nothing. O(1)."""
        guard = self._guard
        guard.enter()
        return guard.commits.changes > self._taken or guard.tables.queues.has_changed or self._recorder.has_changes

    @property
    def is_full(self) -> bool:
        """Whether as much is in memory as should be: `take`, wait for the log, and `commit` before the next call.

        A call raises FrontierError, and the frontier is closed, if it is not done for as long again.
        """
        self._guard.enter()
        return self._guard.is_commit_due(self._soon)

    def take(self) -> bytes | None:
        """Return the changes of rows since the last time, None if there are none; nothing is committed.

        O(changed rows + leases out).
        """
        if not self.has_changes:
            return None
        guard = self._guard
        changes = guard.attempt(self._take)
        guard.tables.runs.touch()
        return changes

    def _take(self) -> bytes | None:
        guard, tables = self._guard, self._guard.tables
        tables.leases.go_on_numbering(tables.counters)
        guard.flush()
        tables.queues.committed()
        self._taken = guard.commits.changes
        return self._recorder.take()

    def commit(self) -> None:
        """Make durable what was taken, once the log has all of it. Costs a sync of the disk, and hooks are called.

        Raises FrontierError if something has changed since the last `take`.
        """
        guard = self._guard
        if self.has_changes:
            raise FrontierError("there are changes that the log has not: take them first")
        guard.attempt(self._commit)
        self._begin()
        if guard.hooks.waiting:
            guard.hooks.run()

    def _commit(self) -> None:
        tables = self._guard.tables
        tables.env.commit()
        self._guard.committed()
        if self._is_first:
            self._is_first = False
            tables.runs.begun()

    def drop(self, why: str) -> None:
        """Throw away everything since the last `commit`, and close the frontier; open it again to go on.

        Nothing happens to a frontier that is closed already.
        """
        if self._guard.closed is None:
            self._guard.enter()
            self._guard.close(f"this frontier was closed, and what its log has not was thrown away: {why}")

    def end(self, reason: str = "") -> None:
        """End the run of this owner in the history of runs: the last change before a partition is handed over."""
        guard = self._guard
        guard.operate(lambda: guard.end_run(RunEnd.EXIT, reason))

    # -- rows of the owner's

    def read(self, name: bytes) -> bytes | None:
        """Return a row of the owner's, one of `meta.OWNED`, None if there is none. O(its size)."""
        self._guard.enter()
        return meta.read_row(self._guard.tables.env.txn, self._table, name)

    def write(self, name: bytes, value: bytes) -> None:
        """Store a row of the owner's; one that is as it was is no change. O(its size)."""
        self._guard.enter()
        meta.write_row(self._guard.tables.env.txn, self._table, name, value)

    @property
    def peers(self) -> PeerTable:
        """The messages that this partition and others have sent to each other last."""
        self._guard.enter()
        return self._guard.tables.peers

    # -- commands

    def apply(self, command: Command) -> AuditEntry | None:
        """Apply a command of an operator; return its audit entry, which says if it was refused.

        The first step of a long one, such as a deletion, is applied, and None returned: `go_on` takes the others.
        Raises CommandInProgress if it has to wait for a long one, and FrontierError if it is no command.
        """
        guard, command = self._guard, checked(command)
        if guard.commands.must_wait(command):
            raise CommandInProgress(guard.commands.told(command))
        return guard.operate(lambda: self._delivery.begin(command, 0).entry)

    def refuse(self, command: Command, why: str) -> AuditEntry:
        """Refuse a command of an operator, whatever it is; return its audit entry."""
        guard, command = self._guard, checked(command)
        return guard.operate(lambda: guard.commands.refuse(command, why, guard.now()))

    def goes_on_at(self) -> float:
        """Return the time from which `go_on` has something to do; infinity if there is nothing. O(1).

        0.0 while a long command or a change of settings is in progress, else the next lease's deadline, or earlier.
        """
        guard, leases = self._guard, self._guard.tables.leases
        guard.enter()
        if guard.commands.job is not None or guard.kernel.rollout.waiting:
            return 0.0
        return leases.next_expiry if leases.out else inf

    def go_on(self) -> AuditEntry | None:
        """Do a step of pending work: expired leases end; a long command and a change of settings take their next steps.

        Returns the audit entry of a command that has ended with that.
        """
        guard = self._guard
        job = guard.commands.job

        def step() -> None:
            guard.kernel.lease_expiry.expire(guard.now())
            self._delivery.go_on()
            guard.kernel.rollout.step(guard.now())

        guard.operate(step)
        return None if job is None else job.entry
