"""Commands of operators in one partition, each applied once by its owner, in the order of the log; long ones in steps.

A long command, such as a deletion, takes a step in each turn of the worker, so that no call waits for long. Commands
that come meanwhile wait in the state of the partition, except those that stop a crawl.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.entries import Steered
from budgetfrontier.cluster.log.state import KnownCommands
from budgetfrontier.core import protocol
from budgetfrontier.engine.bulk_finish import is_closed
from budgetfrontier.engine.commands import operations
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.runner import OVERTAKING
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.undoing import ON_QUEUES
from budgetfrontier.settings.combinations import LABELS_IN_PARTITIONS
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.storage import meta

MOST_WAITING: Final = 1000
MOST_BYTES_WAITING: Final = 4 << 20
"""Of the commands that wait for a long one: they are one row of the partition's tables. More are refused."""
OF_ENTRIES: Final = frozenset(("withdraw", "undo", "discard"))
"""Commands about an entry of the audit, which has another id in each partition: they name its command instead."""


class Commands:
    """Applies the commands of operators; those applied and those waiting are a row of the partition's tables."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier, self._log = frontier, frontier.internals.changelog
        row = self._log.read(meta.COMMANDS)
        self.known = KnownCommands() if row is None else state.decode(row, KnownCommands)
        self._has_changed = False

    def __repr__(self) -> str:
        return f"<Commands: {len(self.known.waiting)} wait>"

    def take(self, steered: Steered) -> None:
        """Apply a command, unless it was applied before or waits; or let it wait for those before it."""
        if self.known.is_known(steered.command):
            return
        self._note(steered, None)
        if not self._must_wait(steered):
            self._apply(steered)
        elif self._has_room(steered):
            self.known.waiting.append(steered)
        else:
            self._refuse(steered)

    def goes_on_at(self) -> float:
        """Return the time from which `go_on` has something to do; infinity: never."""
        return 0.0 if self.known.waiting else self._log.goes_on_at()

    def go_on(self) -> None:
        """End expired leases, take a step of the command in progress, or else apply the next one that waits."""
        known, entry = self.known, self._log.go_on()
        if entry is not None and known.job is not None:
            known.remember(known.job, entry.id)
            known.job = None
            self._has_changed = True
        elif known.waiting and not self._frontier.internals.is_busy:
            self._has_changed = True
            self._apply(known.waiting.pop(0))

    def write(self) -> None:
        """Write the row, if it has changed."""
        if self._has_changed:
            self._has_changed = False
            self._log.write(meta.COMMANDS, state.encode(self.known))

    def _note(self, steered: Steered, entry: int | None) -> None:
        op, args = steered.order.op, steered.order.args
        of_queue = op in ON_QUEUES and args.get("queue") is not None
        self.known.remember(steered.command, entry, of_queue=of_queue, is_adjustment=op == "adjust")
        self._has_changed = True

    def _must_wait(self, steered: Steered) -> bool:
        waiting = self.known.waiting
        if not waiting and not self._frontier.internals.is_busy:
            return False
        op = steered.order.op
        if op not in OVERTAKING:
            return True
        return op == "pause" and any(other.order.op == "resume" for other in waiting)

    def _has_room(self, steered: Steered) -> bool:
        waiting = self.known.waiting
        size = sum(len(protocol.encode(one)) for one in (*waiting, steered))
        return len(waiting) < MOST_WAITING and size <= MOST_BYTES_WAITING

    def _apply(self, steered: Steered) -> None:
        frontier = self._frontier
        was_busy = frontier.internals.is_busy
        try:
            entry = self._log.apply(self._command(steered))
        except Exception:  # an invalid command changes nothing
            if is_closed(frontier):
                raise
            return
        if entry is not None:
            self._note(steered, entry.id)
        elif frontier.internals.is_busy and not was_busy:
            self.known.job = steered.command

    def _refuse(self, steered: Steered) -> None:
        why = "too many commands wait for a long one; give it again later"
        try:
            entry = self._log.refuse(self._command(steered), why)
        except Exception:
            if is_closed(self._frontier):
                raise
        else:
            self._note(steered, entry.id)

    def _command(self, steered: Steered) -> Command:
        """Return a command with the number that the entry which it names has in this partition."""
        order = steered.order
        if order.op in OF_ENTRIES and isinstance(order.args["id"], bytes):
            return replace(order, args=order.args | {"id": self.known.entry_of(order.args["id"]) or 0})
        return order


def refusal(op: str, args: dict[str, Any]) -> Exception | None:
    """Return why a command could be applied in no partition; None if it could."""
    try:
        operations.check_command(op, args | {"id": 0} if op in OF_ENTRIES else args)
        if op == "adjust" and validate_override(args["match"], args["set"]).set.get("quotas.label"):
            return FrontierError(LABELS_IN_PARTITIONS)
    except (FrontierError, TypeError, ValueError, KeyError) as e:
        return e if isinstance(e, FrontierError) else FrontierError(f"{op}: {type(e).__name__}: {e}")
    return None
