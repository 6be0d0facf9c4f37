"""Steering through the API: a command is checked, applied with all of its steps, and its errors are raised."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlState
from budgetfrontier.engine import arguments, audit
from budgetfrontier.engine.commands import operations
from budgetfrontier.engine.commands.adjustment import Adjustment
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.commands.runner import CommandRun
from budgetfrontier.engine.delivery import Delivery
from budgetfrontier.engine.guard import Guard
from budgetfrontier.errors import CommandInProgress, FrontierError, SettingsError
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage.records import AuditEntry


class Steering:
    """Applies the commands of the API. A long one in progress is ended first."""

    def __init__(self, guard: Guard, delivery: Delivery) -> None:
        self._guard = guard
        self._delivery = delivery

    def apply(self, command: Command, number: int) -> AuditEntry:
        """Apply a command as it came from outside; a refusal is in its audit entry."""
        return _entry(self._apply(command, number))

    def steer(self, op: str, args: dict[str, Any], who: str | None, reason: str) -> AuditEntry:
        """Apply a command of the API; raise an error if it is refused."""
        self._guard.enter()
        reason, who = arguments.text(reason, "reason"), "api" if who is None else arguments.text(who, "who")
        operations.check_command(op, args)
        job = self._apply(Command(op, args, who or "api", reason), 0)
        if job.failure is not None:
            raise job.failure
        return audit.check(_entry(job))

    def steer_queue(self, op: str, key: str, who: str | None, reason: str, **args: Any) -> bool:
        """Apply a command to a queue; False if there is no such queue."""
        key, queues = arguments.queue_key(key), self._guard.tables.queues
        if self._guard.operate(lambda: queues.look_up(queues.named(key)), changes=0) is None:
            return False
        self.steer(op, {"queue": key, **args}, who, reason)
        return True

    def steer_crawl(self, op: str, who: str | None, reason: str) -> CrawlState:
        """Apply a command to the whole crawl; return the state that it is in then."""
        self.steer(op, {"reason": reason} if op == "pause" else {}, who, reason)
        self._guard.enter()
        return self._guard.kernel.counters.state

    def steer_letters(
        self,
        op: str,
        letters: arguments.Letters,
        queue: str | None,
        who: str | None,
        reason: str,
        *,
        for_good: bool = False,
    ) -> dict[str, int]:
        """Apply a command to dead letters: some, those of a queue, or all; return how many they were."""
        queue = None if queue is None else arguments.text(queue, "queue")
        args = {"ids": arguments.letter_ids(letters), "queue": queue} | _flags(for_good=for_good)
        return self.steer(op, args, who, reason).effect

    def adjust(self, match: str, settings: dict[str, Any], who: str | None, reason: str, dry_run: bool) -> Adjustment:
        """Append an override, or with `dry_run` only preview it."""
        self._guard.enter()
        match = arguments.text(match, "match")
        if not settings:
            raise SettingsError("adjust needs at least one setting to change")
        args: dict[str, Any] = {"match": match, "set": dict(validate_override(match, settings).set)}
        args |= _flags(dry_run=dry_run)
        effect = self.steer("adjust", args, who, reason).effect
        effect = {name: value for name, value in effect.items() if name != "inverse"}
        return Adjustment(id=self._guard.kernel.counters.audit, **{"dry_run": dry_run, **args, **effect})

    def delete(
        self, queue: str | None, pattern: str | None, who: str | None, reason: str, *, dry_run: bool, for_good: bool
    ) -> int:
        """Delete pending URIs, or only count them; return how many."""
        args: dict[str, Any] = {
            "queue": None if queue is None else arguments.text(queue, "queue"),
            "pattern": None if pattern is None else arguments.text(pattern, "pattern"),
        }
        args |= _flags(dry_run=dry_run, for_good=for_good)
        return int(self.steer("delete", args, who, reason).effect["deleted"])

    def _apply(self, command: Command, number: int) -> CommandRun:
        """Apply a command, all of its steps."""
        self._guard.enter()
        command, guard, delivery = checked(command), self._guard, self._delivery
        if guard.commits.in_batch and guard.commands.must_wait(command):
            raise CommandInProgress(guard.commands.told(command))
        if guard.commits.in_batch and not guard.logged and operations.takes_steps(command.op, command.args):
            raise FrontierError(
                f"{command.op} may take several steps, and commits each: give it after the atomic batch"
            )
        while guard.commands.must_wait(command):
            guard.operate(delivery.go_on, changes=0)
        job = guard.operate(lambda: delivery.begin(command, number))
        while job.entry is None:
            guard.operate(delivery.go_on, changes=0)
        return job


def _flags(**given: bool) -> dict[str, bool]:
    """Return the flags that are set, as a command has them. Raises WrongType."""
    return {name: True for name, value in given.items() if arguments.flag(value, name)}


def _entry(job: CommandRun) -> AuditEntry:
    assert job.entry is not None  # it has ended
    return job.entry
