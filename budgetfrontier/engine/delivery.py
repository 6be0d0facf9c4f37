"""The delivery of commands to an engine: from the mailbox in order, a long one step by step, each exactly once.

If a process dies while it applies a command, the start of the command has been counted on disk: after three such starts
in a row the command is abandoned, and the audit says so.
"""

from __future__ import annotations

import contextlib

from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.engine.commands.runner import STARTS, STEP, CommandRun, Runner
from budgetfrontier.engine.guard import Guard
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Counters


class Delivery:
    """Brings commands from the mailbox, and from the API, to the runner; `guard` has the time and commits.

    It does so when `guard` calls it back.
    """

    def __init__(self, guard: Guard, runner: Runner, mailbox: Mailbox | None) -> None:
        self._guard = guard
        self._runner = runner
        self._counters = guard.kernel.counters
        self.mailbox = mailbox
        """None for a frontier in memory, which has no other processes."""
        guard.on_tick, guard.on_underway = self.read_mailbox, self.go_on
        guard.on_abort, guard.on_close = self.take_back_start, self.close
        if mailbox is not None:
            mailbox.begin_after(_last_known(self._counters, runner))

    def read_mailbox(self) -> None:
        """Take the next step of a long command; apply commands posted since the last look, up to the next long one."""
        guard, counters = self._guard, self._counters
        if guard.logged:  # commands come through the log
            return
        if self._runner.job is not None:
            self.go_on()
        if self.mailbox is None:
            return
        if self.mailbox.is_lost():
            guard.tables.env.check_place()  # else it would be made where the frontier was removed
            self.mailbox.reopen()
            self.mailbox.begin_after(_last_known(counters, self._runner))
        waiting = self.mailbox.waiting(counters.command)
        if waiting:
            before = counters.command
            self._apply_in_order(waiting)
            if self._runner.job is not None:
                self._let_overtake(waiting)
            guard.commits.changes += 1
            guard.commit()
            if counters.command > before:
                self.mailbox.done(counters.command)

    def _apply_in_order(self, waiting: list[tuple[int, Command]]) -> None:
        """Apply commands until one takes several steps.

        If the process dies while applying one, the next process applies and commits them one by one, to find out which.
        """
        guard, counters, runner = self._guard, self._counters, self._runner
        one_by_one = counters.starts > 0
        counted = False
        for number, command in waiting:
            if runner.job is not None:
                return
            if runner.passed(number):
                continue
            if counters.trying == number and counters.starts >= STARTS:
                runner.give_up(guard.now(), number, command)
            else:
                if not counted:
                    self._count_start(number)
                    counted = not one_by_one
                runner.begin(command, number, guard.now())
            guard.settle()
            self._end_start()
            if one_by_one:
                guard.commits.changes += 1
                guard.commit()

    def _let_overtake(self, waiting: list[tuple[int, Command]]) -> None:
        """Apply the commands that overtake the one in progress; a pause does not overtake a `resume`."""
        guard, counters, resumes = self._guard, self._counters, False
        job = self._runner.job
        for number, command in waiting:
            resumes |= command.op == "resume"
            may = command.op == "terminate" or (command.op == "pause" and not resumes)
            if may and number not in counters.ahead and job is not None and number > job.begun.number:
                self._runner.begin(command, number, guard.now())
                guard.settle()

    def begin(self, command: Command, number: int) -> CommandRun:
        """Apply a command of the API's, a long one for one step."""
        job = self._runner.begin(command, number, self._guard.now())
        if job.entry is None:
            self._guard.commits.changes += STEP
        return job

    def go_on(self) -> None:
        """Take the next step of the command in progress."""
        guard, counters, runner = self._guard, self._counters, self._runner
        inherited, job = runner.inherited and not guard.logged, runner.job
        if job is None:
            return
        if inherited and counters.trying == job.begun.number and counters.starts >= STARTS:
            runner.give_up(guard.now())
        else:
            if inherited:
                self._count_start(job.begun.number)
            runner.step(guard.now())
        guard.settle()
        guard.commits.changes += STEP
        if inherited:  # commit that the first step succeeded before the next one
            self._end_start()
            guard.commit()

    # -- processes that die of a command

    def _count_start(self, number: int) -> None:
        """Store that a command is started or continued, in case this process dies while applying it."""
        counters = self._counters
        counters.starts = counters.starts + 1 if counters.trying == number else 1
        counters.trying = number
        self._guard.commits.changes += 1
        self._guard.commit()

    def _end_start(self) -> None:
        self._counters.trying = self._counters.starts = 0

    def take_back_start(self) -> None:
        """Remove the counted start of a command that did not end the process, if that can still be written."""
        if not self._counters.starts:
            return
        env = self._guard.tables.env
        with contextlib.suppress(Exception):
            env.check_place()  # else another process may have opened it, and its transaction would be waited for
            env.abort()
            with env.env.begin(write=True) as txn:
                stored = meta.read_counters(txn, env.db[keys.META])
                stored.trying = stored.starts = 0
                txn.put(b"counters", encode(stored), db=env.db[keys.META])

    def close(self) -> None:
        """Let go of the mailbox."""
        if self.mailbox is not None:
            self.mailbox.close()


def _last_known(counters: Counters, runner: Runner) -> int:
    """Return the highest number of a command that was begun."""
    begun = 0 if runner.job is None else runner.job.begun.number
    return max(counters.last_command, begun)
