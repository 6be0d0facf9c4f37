"""The commands that steer a frontier, by name, and those that change the state of the crawl.

A command is applied in one transaction with its audit entry, whether it came through the API or through the mailbox. A
command that may affect any number of URIs is applied in steps, and stores its progress.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import (
    adjustment,
    dead_letters,
    deletion,
    forgetting,
    queue_commands,
    scheduling,
    undo,
)
from budgetfrontier.engine.commands.state_preview import look_at_crawl
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import crawl_states
from budgetfrontier.storage.records import Progress

# -- the commands: each changes the kernel and returns the effect that the audit keeps


def _crawl_state(change: Callable[[Kernel, dict[str, Any]], None]) -> Operation:
    def apply(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
        before = look_at_crawl(kernel.counters)
        change(kernel, args)
        return {"before": before, "after": undo.look_at_settled(kernel)}

    return apply


def _pause(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    reason = str(args.get("reason") or "operator")
    counters.pause_reason = crawl_states.reason_after_pause(counters.state, counters.pause_reason, reason)
    counters.state = crawl_states.after_pause(counters.state, len(kernel.tables.leases.out))


def _resume(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    after = crawl_states.after_resume(counters.state, counters.scheduled)
    if after is not counters.state:
        counters.state, counters.pause_reason = after, None


def _terminate(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    counters.state, counters.pause_reason = crawl_states.after_terminate(counters.state), None


Operation = Callable[[Kernel, dict[str, Any], float], dict[str, Any]]

OPERATIONS: dict[str, Operation] = {
    "adjust": adjustment.adjust,
    "withdraw": adjustment.withdraw,
    "pause": _crawl_state(_pause),
    "resume": _crawl_state(_resume),
    "terminate": _crawl_state(_terminate),
}

PREVIEWS: dict[str, Operation] = {"adjust": adjustment.adjust, "delete": deletion.dry_run}
"""Those with a `dry_run`."""


class Stepwise(NamedTuple):
    """A command applied in steps, because it may affect any number of URIs: its start, and a function for each step."""

    start: Callable[[dict[str, Any]], Progress]
    step: Callable[[Kernel, Admitter, dict[str, Any], Progress, int, int, float], bool]
    """Takes the progress, which it changes, the last ordinal that counts, how many URIs one step may take, the time."""


STEPWISE: dict[str, Stepwise] = {
    "schedule": Stepwise(scheduling.start, scheduling.schedule),
    "mark_seen": Stepwise(scheduling.start, scheduling.mark_seen),
    "bury": Stepwise(scheduling.start, scheduling.bury),
    "delete": Stepwise(deletion.start, deletion.step),
    "replay": Stepwise(dead_letters.start_replay, dead_letters.replay),
    "drop": Stepwise(dead_letters.start_drop, dead_letters.drop),
    "forget": Stepwise(forgetting.start, forgetting.step),
    "undo": Stepwise(undo.start, undo.step),
    "discard": Stepwise(undo.start, undo.discard),
    **{op: Stepwise(queue_commands.start, step) for op, step in queue_commands.STEPS.items()},
}


def takes_steps(op: str, args: dict[str, Any]) -> bool:
    """Return whether a command may take several steps: one on a queue that it names takes one, as a dry run does."""
    is_named = op in queue_commands.STEPS and args.get("queue") is not None
    return op in STEPWISE and not is_named and not (op in PREVIEWS and args.get("dry_run"))


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "adjust": adjustment.check,
    "withdraw": adjustment.check_withdrawal,
    "undo": undo.check,
    "discard": undo.check,
    "delete": deletion.check,
    "forget": forgetting.check,
    "schedule": scheduling.check,
    "mark_seen": scheduling.check,
    "bury": scheduling.check_letters,
    "replay": dead_letters.check,
    "drop": dead_letters.check,
    **{op: partial(queue_commands.check, op) for op in queue_commands.STEPS},
}


_OF_QUEUES = frozenset(("queue", "match", "states", "for_good"))
_ARGUMENTS: dict[str, frozenset[str]] = {
    "adjust": frozenset(("match", "set", "list", "dry_run", "survey", "promised")),
    "withdraw": frozenset(("id", "survey", "promised")),
    "undo": frozenset(("id", "list", "force", "then", "promised", "limited")),
    "discard": frozenset(("id",)),
    "delete": frozenset(("queue", "pattern", "match", "states", "dry_run", "for_good")),
    "forget": frozenset(("uris", "match", "pattern", "for_good", "continues")),
    "schedule": frozenset(("uris", "revived", "upto", "in_place", "continues")),
    "mark_seen": frozenset(("uris", "charge", "continues")),
    "bury": frozenset(("uris", "reasons", "continues")),
    "replay": frozenset(("ids", "queue", "match", "why")),
    "drop": frozenset(("ids", "queue", "match", "why", "for_good")),
    "retire": _OF_QUEUES,
    "unretire": _OF_QUEUES,
    "snooze": _OF_QUEUES | {"until"},
    "wake": _OF_QUEUES,
    "set_queue": _OF_QUEUES | {"interval", "max_completed"},
    "pause": frozenset(("reason", "limited")),
    "resume": frozenset(("limited",)),
    "terminate": frozenset(("limited",)),
}
"""The arguments that each command takes; for a revival, the lines of the log that its URIs come from.

`for_good`: nothing is kept for `undo`.
`list`: the place of an adjustment in a list, see `ListPlace`; of `undo`, whether it is that of the whole list.
`continues`: the audit entry of the same command with other URIs, which is to be that of this one, too.
`limited`: the state of a crawl in partitions of which a total is used up, as the audit is to have it.
"""


def check_command(op: str, args: dict[str, Any]) -> None:
    """Raise for arguments that could not be applied, before anything is changed.

    Unknown arguments are refused: without them, the command might do more than was meant.
    """
    known = _ARGUMENTS.get(op)
    if known is not None and not known >= args.keys():
        unknown = sorted(args.keys() - known)
        takes = f"it takes {', '.join(sorted(known)) or 'nothing'}{did_you_mean(unknown[0], known)}"
        raise FrontierError(f"{op} does not take {', '.join(map(repr, unknown))}; {takes}")
    if op in _CHECKS:
        try:
            _CHECKS[op](args)
        except OverflowError as e:  # infinity for a whole number, or a whole number that no float can hold
            raise FrontierError(f"{op}: {e}; give a smaller number") from None
