"""Commands of operators in one partition, each applied once, in the order of the log; long ones in steps.

A long command, such as a deletion, takes one step with each `Ticked` entry, so that no entry takes long. Commands that
come meanwhile wait in the state of the partition, except those that stop a crawl.
"""

from __future__ import annotations

from typing import Any, Final

from budgetfrontier.cluster.entries import Steered
from budgetfrontier.cluster.state import PartitionState
from budgetfrontier.core import protocol
from budgetfrontier.engine.bulk_finish import is_closed
from budgetfrontier.engine.commands import operations
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.runner import OVERTAKING
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError
from budgetfrontier.server import frontier_calls
from budgetfrontier.settings.checks import LABELS_IN_PARTITIONS
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage.records import AuditEntry

MOST_WAITING: Final = 1000
MOST_BYTES_WAITING: Final = 4 << 20
"""Of the commands that wait for a long one: they are part of the note. More are refused."""
OF_QUEUES: Final = frozenset(("retire", "unretire", "snooze", "wake", "set_queue"))
"""Commands to a queue, or to those that they select."""
OF_ENTRIES: Final = frozenset(("withdraw", "undo", "discard"))
"""Commands about an entry of the audit, which has another id in each partition: they name its command instead."""


class Commands:
    """Applies the commands of operators; those applied and those waiting are in the state of the partition."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<Commands of partition {self._state.partition}: {len(self._state.waiting)} wait>"

    def take(self, frontier: Frontier, steered: Steered) -> None:
        """Apply a command, unless it was applied before or waits; or let it wait for those before it."""
        state = self._state
        if state.is_known(steered.command):
            return
        self._note(steered, None)
        if not self._must_wait(frontier, steered):
            self._apply(frontier, steered)
        elif self._has_room(steered):
            state.waiting.append(steered)
        else:
            self._refuse(frontier, steered)

    def go_on(self, frontier: Frontier) -> None:
        """Take a step of the command in progress, or else apply the next one that waits."""
        state, entry = self._state, frontier.internals.replica.go_on()
        if entry is not None and state.job is not None:
            state.remember(state.job, entry.id)
            state.job = None
        elif state.waiting and not frontier.internals.is_busy:
            self._apply(frontier, state.waiting.pop(0))

    def has_work(self) -> bool:
        """Return whether commands wait or are in progress."""
        return bool(self._state.waiting)

    def _note(self, steered: Steered, entry: int | None) -> None:
        op = _op(steered)
        of_queue = op in OF_QUEUES and (steered.name != "apply" or steered.positional[1].get("queue") is not None)
        self._state.remember(steered.command, entry, of_queue=of_queue, is_adjustment=op == "adjust")

    def _must_wait(self, frontier: Frontier, steered: Steered) -> bool:
        waiting = self._state.waiting
        if not waiting and not frontier.internals.is_busy:
            return False
        op = _op(steered)
        if op not in OVERTAKING:
            return True
        return op == "pause" and any(_op(other) == "resume" for other in waiting)

    def _has_room(self, steered: Steered) -> bool:
        waiting = self._state.waiting
        size = sum(len(protocol.encode(one)) for one in (*waiting, steered))
        return len(waiting) < MOST_WAITING and size <= MOST_BYTES_WAITING

    def _apply(self, frontier: Frontier, steered: Steered) -> None:
        was_busy = frontier.internals.is_busy
        try:
            if steered.name == "apply":
                entry = frontier.internals.replica.apply(self._command(steered))
            else:
                entry = frontier_calls.plain(
                    frontier, protocol.MethodCall(steered.name, steered.positional, steered.named), protocol.STEER
                )
        except Exception:  # an invalid command changes nothing, in any replica
            if is_closed(frontier):
                raise
            return
        if isinstance(entry, AuditEntry):
            self._note(steered, entry.id)
        elif frontier.internals.is_busy and not was_busy:
            self._state.job = steered.command

    def _refuse(self, frontier: Frontier, steered: Steered) -> None:
        if steered.name != "apply":
            return
        try:
            entry = frontier.internals.replica.refuse(
                self._command(steered), "too many commands wait for a long one; give it again later"
            )
        except Exception:
            if is_closed(frontier):
                raise
        else:
            self._note(steered, entry.id)

    def _command(self, steered: Steered) -> Command:
        """Return a command as this partition applies it: the same in all replicas, whatever its worker is."""
        op, args, *by = steered.positional
        if op in OF_ENTRIES and isinstance(args["id"], bytes):
            args = args | {"id": self._state.entry_of(args["id"]) or 0}
        return Command(op, replicable(op, args), *by)


def replicable(op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with those that make it the same in all replicas."""
    selects = op in ("delete", "forget") or (op in OF_QUEUES and args.get("queue") is None)
    selects |= op in ("drop", "replay") and args.get("match") is not None
    return args | {"timeless": True} if selects else args


def refusal(op: str, args: dict[str, Any]) -> Exception | None:
    """Return why a command could be applied in no partition; None if it could."""
    try:
        operations.check_command(op, replicable(op, args | {"id": 0} if op in OF_ENTRIES else args))
        if op == "adjust" and validate_override(args["match"], args["set"]).set.get("quotas.label"):
            return FrontierError(LABELS_IN_PARTITIONS)
    except (FrontierError, TypeError, ValueError, KeyError) as e:
        return e if isinstance(e, FrontierError) else FrontierError(f"{op}: {type(e).__name__}: {e}")
    return None


def _op(steered: Steered) -> str:
    return str(steered.positional[0]) if steered.name == "apply" and steered.positional else steered.name
