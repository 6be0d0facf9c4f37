"""The entries of the log of a replicated frontier, which nothing else changes."""

from __future__ import annotations

from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.commands.runner import STEP
from budgetfrontier.engine.delivery import Delivery
from budgetfrontier.engine.guard import Guard
from budgetfrontier.errors import CommandInProgress
from budgetfrontier.storage.records import AuditEntry


class Replica:
    """Applies the entries of a log to a replicated frontier, in its `atomic` batches."""

    def __init__(self, guard: Guard, delivery: Delivery) -> None:
        self._guard = guard
        self._delivery = delivery

    def begin_entry(self, first_lease: int) -> None:
        """Begin an entry of the log: a log that is applied again gives the same frontier.

        Leases have the ids from `first_lease` on, which no other entry may give (64 bits), and jitter depends on it
        alone. The caller has set the clock to the time of the entry.
        """
        tables = self._guard.tables
        tables.leases.number_from(first_lease, tables.counters)
        tables.random.seed(first_lease)

    def apply(self, command: Command) -> AuditEntry | None:
        """Apply a command of the log; return its audit entry, which says if it was refused.

        The first step of a long one, such as a deletion, is applied, and None returned: `go_on` takes the others.
        Raises CommandInProgress if it has to wait for a long one, and FrontierError if it is no command.
        """
        guard, command = self._guard, checked(command)
        if guard.commands.must_wait(command):
            raise CommandInProgress(guard.commands.told(command))
        return guard.operate(lambda: self._delivery.begin(command, 0).entry)

    def refuse(self, command: Command, why: str) -> AuditEntry:
        """Refuse a command of the log, whatever it is; return its audit entry."""
        guard, command = self._guard, checked(command)
        return guard.operate(lambda: guard.commands.refuse(command, why, guard.now()))

    def go_on(self) -> AuditEntry | None:
        """Do a step of pending work, see `Internals.goes_on_at`.

        Expired leases end; a long command and a change of settings take their next steps. Returns the audit entry of a
        command that has ended with that.
        """
        guard = self._guard
        job = guard.commands.job

        def step() -> None:
            now = guard.now()
            guard.kernel.lease_expiry.expire(now)
            if job is not None:
                guard.commands.step(now)
                guard.commits.changes += STEP
            guard.kernel.rollout.step(now)

        guard.operate(step)
        return None if job is None else job.entry
