"""The changes since a dry run: commands that were given, and the state of its queue or of the crawl."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any, NamedTuple

from budgetfrontier.reports.audit_filter import BRIEF_URIS, coverage, deleted_queues, touches
from budgetfrontier.settings.matching import Match, parse_match
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.steer_process import SteerLine

_READ = 1000  # entries of the audit


class Since(NamedTuple):
    """The changes: the commands that may matter, the newest first, and the states then and now if they differ."""

    commands: list[AuditEntry]
    states: tuple[str, str] | None = None
    number: int | None = None
    """The number of commands, where their ids have no order."""

    @property
    def newest(self) -> int:
        """The id of the newest of the commands, or how many there are; 0 if there is none."""
        if self.number is not None:
            return self.number
        return self.commands[0].id if self.commands else 0


def since(view: View, asked: SubmittedCommand, shown: SteerLine) -> Since:
    """Return what has changed since a dry run: the commands that may have changed its queue, or those that it matches.

    O(new commands).
    """
    effect = shown.effect or {}
    newer = takewhile(lambda entry: entry.id > shown.last_command, islice(view.newest_commands(), _READ))
    commands = [entry for entry in newer if not entry.error]
    then = effect.get("before", {}).get("state")
    if then is None:
        match = _match(asked.op, asked.args)
        return Since(commands if match is None else list(filter(touches(view, match), commands)))
    key = effect.get("queue")
    queue = view.find_queue(key) if isinstance(key, str) else None
    if queue is not None:
        covers = coverage(view, queue.queue, looked_at=BRIEF_URIS)
        commands = [entry for entry in commands if covers(entry)]
    now = str(view.summary().state if queue is None else queue.state)
    return Since(commands, (then, now) if then != now else None)


def _match(op: str, args: dict[str, Any]) -> Match | None:
    """Return the pattern of the queues that a command is about; None if it has none."""
    if op == "adjust":
        return parse_match(args["match"])
    return deleted_queues(args.get("queue")) if op == "delete" else None
