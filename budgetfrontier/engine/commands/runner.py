"""The application of commands: each exactly once, in order, with its audit entry, and the long ones in steps.

A command that is not done after one step is stored with its progress, in the transaction of each step, so that it
continues from there after a crash. Its audit entry is written at the end. Until then other commands wait, except to
stop a crawl. What is too much for one command is given in several, each of which continues the entry of the last one.
"""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import deletion, operations
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.operations import OPERATIONS, PREVIEWS, STEPWISE
from budgetfrontier.engine.commands.scheduling import audited
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError, PolicyError, pass_on_interruption
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.records import AuditEntry, Progress, StartedCommand
from budgetfrontier.storage.removed import ended

STEP = 500  # URIs or dead letters: some milliseconds
STARTS = 3
"""The number of processes that may die while applying a command before it is abandoned."""
IN_EFFECT = frozenset(("survey", "promised", "then", "continues"))
"""Arguments that the audit has as a part of the effect, or in the entry itself."""
OF_PARTS = frozenset(("uris", "reasons", "upto", "continues"))
"""Arguments in which the parts of one command may differ."""
OVERTAKING = frozenset(("pause", "terminate"))
"""Commands that do not wait until a long one is done."""


class CommandRun:
    """A command that was started; `entry` is its audit entry at the end, `failure` the PolicyError that ended it."""

    __slots__ = ("begun", "entry", "failure", "progress")

    def __init__(self, begun: StartedCommand, progress: Progress) -> None:
        self.begun = begun
        self.progress = progress
        self.entry: AuditEntry | None = None
        self.failure: PolicyError | None = None


class Runner:
    """Applies commands to a kernel, one after the other. `job` is the long one in progress."""

    def __init__(self, kernel: Kernel, admitter: Admitter) -> None:
        self._kernel = kernel
        self._admitter = admitter
        found = meta.read_begun(kernel.tables.env.txn, kernel.tables.env.db[keys.META])
        self.job: CommandRun | None = None
        self.inherited = found is not None
        """Whether an earlier process started it, and this one has not continued it yet."""
        if found is not None:
            self._put_in_progress(CommandRun(*found))

    def begin(self, command: Command, number: int, now: float) -> CommandRun:
        """Apply a command, or the first step of a long one; refused, it changes nothing. `number`: 0 for the API's."""
        args = command.args
        if isinstance(args.get("ids"), list):
            args = {**args, "ids": sorted(set(args["ids"]))}
        if isinstance(args.get("queue"), str):  # a queue, or a glob, which is none
            args = {**args, "queue": self._kernel.tables.queues.named(args["queue"])}
        begun = StartedCommand(
            number, command.op, args, command.who, command.reason, self._kernel.counters.ordinal, command.line
        )
        job = CommandRun(begun, Progress([], {}))
        try:
            operations.check_command(command.op, args)
        except Exception as e:  # nothing has changed: a command that cannot be applied must not end the engine
            pass_on_interruption(e)
            self._end(job, now, f"{command.op}: {e if str(e) else type(e).__name__}")
            return job
        if command.op in STEPWISE and not (command.op in PREVIEWS and args.get("dry_run")):
            job.progress = STEPWISE[command.op].start(args)
            if (continued := self._continued(begun)) is not None:
                job.progress.effect = continued.effect
            self._go_on(job, now)
        else:
            self._at_once(job, now)
        return job

    def refuse(self, command: Command, why: str, now: float) -> AuditEntry:
        """Refuse a command whatever it is; audit that."""
        begun = StartedCommand(0, command.op, command.args, command.who, command.reason, 0, command.line)
        run = CommandRun(begun, Progress([], {}))
        self._end(run, now, why)
        assert run.entry is not None
        return run.entry

    def step(self, now: float) -> None:
        """Apply the next step of the command in progress."""
        assert self.job is not None
        self.inherited = False
        self._go_on(self.job, now)

    def give_up(self, now: float, number: int = 0, command: Command | None = None) -> None:
        """Abandon a command during which too many processes have died (None: the one in progress); audit that."""
        job = self.job
        if command is not None:
            begun = StartedCommand(number, command.op, command.args, command.who, command.reason, 0, command.line)
            job = CommandRun(begun, Progress([], {}))
        assert job is not None
        self.inherited = False
        done = "; what it had done until then stays" if job is self.job else ""
        self._end(
            job,
            now,
            f"{command_in_words(job.begun.op)} was set aside: {STARTS} processes in a row ended while they applied it"
            f"{done}; give it in smaller parts, and keep the audit for a bug report",
        )

    def must_wait(self, command: Command) -> bool:
        """Return whether a command has to wait for the one in progress."""
        dry_run = command.op in PREVIEWS and command.args.get("dry_run")
        return self.job is not None and command.op not in OVERTAKING and not dry_run

    def told(self, command: Command) -> str:
        """Return the refusal of a command that has to wait, where it cannot."""
        assert self.job is not None
        begun = self.job.begun
        what, other = command_in_words(begun.op), command_in_words(command.op)
        return f"{what} by {begun.who} is in progress; {other} was not applied: give it once that has ended"

    def passed(self, number: int) -> bool:
        """Return whether a command was already applied ahead of its turn; if so, skip the turn."""
        counters = self._kernel.counters
        if number not in counters.ahead:
            return False
        counters.ahead = [other for other in counters.ahead if other != number]
        counters.command = number
        return True

    def _at_once(self, job: CommandRun, now: float) -> None:
        begun, error = job.begun, None
        operation = PREVIEWS.get(begun.op) or OPERATIONS.get(begun.op)
        if operation is None:
            known = sorted({*OPERATIONS, *STEPWISE})
            error = f"unknown command {begun.op!r}; this engine knows {', '.join(known)}{did_you_mean(begun.op, known)}"
        else:
            try:
                job.progress.effect = operation(self._kernel, begun.args, now)
            except FrontierError as e:
                error = str(e)
        self._end(job, now, error)

    def _go_on(self, job: CommandRun, now: float) -> None:
        kernel, begun, error = self._kernel, job.begun, None
        try:
            done = STEPWISE[begun.op].step(kernel, self._admitter, begun.args, job.progress, begun.upto, STEP, now)
        except PolicyError as e:
            job.failure = e if job is not self.job else _failed_halfway(e)
            done, error = True, str(job.failure)
        except FrontierError as e:
            done, error = True, str(e)
        if done:
            self._end(job, now, error)
            return
        txn, table = kernel.tables.env.txn, kernel.tables.env.db[keys.META]
        if job is not self.job:
            meta.write_begun(txn, table, begun)
        meta.write_progress(txn, table, job.progress)
        self._put_in_progress(job)

    def _put_in_progress(self, job: CommandRun) -> None:
        self.job = job
        self._kernel.underway = True
        self._kernel.tables.future.held = job.begun.op == "delete" and job.progress.at[0] == deletion.LATER

    def _end(self, job: CommandRun, now: float, error: str | None) -> None:
        kernel, begun = self._kernel, job.begun
        counters = kernel.counters
        kernel.tables.series.steered(now)
        effect: dict[str, Any] = {} if error and job is not self.job else job.progress.effect
        if job is self.job:
            meta.end_begun(kernel.tables.env.txn, kernel.tables.env.db[keys.META])
            self.job = None
            kernel.underway = kernel.tables.future.held = False
        if self.job is not None and begun.number:
            counters.ahead = [*counters.ahead, begun.number]
        else:
            counters.command = max(counters.command, begun.number)
        args = audited(begun.args) if begun.op in STEPWISE and not error else begun.args
        args = {name: value for name, value in args.items() if name not in IN_EFFECT}
        job.entry = AuditEntry(
            0, begun.op, args, begun.who, now, begun.reason, effect, error=error, number=begun.number, line=begun.line
        )
        if effect and (continued := self._continued(begun)) is not None:
            job.entry.id, job.entry.when = continued.id, continued.when
            job.entry.args = args | {"uris": continued.args["uris"] + len(begun.args["uris"])}
            kernel.tables.audit.replace(job.entry)
        elif begun.number or not (begun.op in PREVIEWS and begun.args.get("dry_run")):
            kernel.tables.audit.record(job.entry)

    def _continued(self, begun: StartedCommand) -> AuditEntry | None:
        """Return the audit entry that a command continues; None if it is to have one of its own.

        That is so if the entry is not that of another part of the same command, or was undone since.
        """
        number, view = begun.args.get("continues"), self._kernel.tables.env.view()
        entry = None if number is None else view.audit_entry(number)
        if entry is None or entry.error or ended(view, entry.id).get(entry.id):
            return None
        args = {name: value for name, value in begun.args.items() if name not in OF_PARTS}
        given = {name: value for name, value in entry.args.items() if name not in OF_PARTS}
        same = (entry.command, entry.who, entry.reason, given) == (begun.op, begun.who, begun.reason, args)
        return entry if same and "uris" in entry.args else None


def _failed_halfway(error: PolicyError) -> PolicyError:
    """Return the same PolicyError, saying that earlier steps have changed something."""
    return PolicyError(
        f"{error}; what the command had done before it came to this URL stays",
        policy=error.policy,
        url=error.url,
        value=error.value,
    )
