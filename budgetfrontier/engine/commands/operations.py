"""The commands that steer a frontier, by name, and those that change the state of a queue or of the crawl.

A command is applied in one transaction with its audit entry, whether it came through the API or through the mailbox. A
command that may affect any number of URIs is applied in steps, and stores its progress.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.engine import arguments
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import adjustment, dead_letters, deletion, scheduling, undo
from budgetfrontier.engine.commands.state_preview import look_at_crawl, look_at_queue
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import crawl_states
from budgetfrontier.storage.records import Progress

_LONGEST_INTERVAL = (1 << 32) - 1
"""The most seconds that 32 bits hold."""

# -- the commands: each changes the kernel and returns the effect that the audit keeps


def _queue(kernel: Kernel, args: dict[str, Any]) -> QueueRecord:
    queue = kernel.tables.queues.find(str(args["queue"]))
    if queue is None:
        raise FrontierError(f"there is no queue {args['queue']!r}; `queues` lists them")
    return queue


def _on_queue(change: Callable[[Kernel, QueueRecord, dict[str, Any], float], None]) -> Operation:
    def apply(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
        queue = _queue(kernel, args)
        before = look_at_queue(queue)
        change(kernel, queue, args, now)
        return {"before": before, "after": look_at_queue(queue)}

    return apply


def check_paced(kernel: Kernel) -> None:
    """Raise FrontierError unless queues of the frontier may have intervals and limits of their own."""
    if kernel.tables.urls is None:
        raise FrontierError(
            "queues have intervals and limits of their own only with `frontier.keep_urls`, which is fixed at creation; "
            "`adjust` sets `politeness.min_interval` for queues that match"
        )


def _set_queue(kernel: Kernel, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    check_paced(kernel)
    if "interval" in args:
        kernel.turns.set_interval(queue, float(args["interval"]), now)
    if "max_completed" in args:
        kernel.turns.set_limit(queue, int(args["max_completed"]))


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
    "discard": undo.discard,
    "retire": _on_queue(lambda kernel, queue, args, now: kernel.turns.retire(queue)),
    "unretire": _on_queue(lambda kernel, queue, args, now: kernel.turns.unretire(queue)),
    "snooze": _on_queue(lambda kernel, queue, args, now: kernel.turns.snooze(queue, float(args["until"]), now)),
    "wake": _on_queue(lambda kernel, queue, args, now: kernel.turns.wake(queue, now)),
    "set_queue": _on_queue(_set_queue),
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
    "undo": Stepwise(undo.start, undo.step),
}


def _check_queue(args: dict[str, Any]) -> None:
    str(args["queue"])


def _check_snooze(args: dict[str, Any]) -> None:
    _check_queue(args)
    if not isfinite(float(args["until"])):
        raise FrontierError("a queue is blocked until a time in epoch seconds; to block it for good, retire it")


def _check_set_queue(args: dict[str, Any]) -> None:
    _check_queue(args)
    if not 0 <= float(args.get("interval", 0)) <= _LONGEST_INTERVAL:
        raise FrontierError(f"an interval is a number of seconds from 0 to {_LONGEST_INTERVAL}, not {args['interval']}")
    if arguments.exactly(args.get("max_completed", 0), 0, 1 << 62) is None:
        error = arguments.error_of_count(args["max_completed"], FrontierError)
        raise error(f"a limit is a whole number of URLs, 0 for none, not {args['max_completed']!r:.60}")


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "adjust": adjustment.check,
    "withdraw": adjustment.check_withdrawal,
    "undo": undo.check,
    "discard": undo.check,
    "delete": deletion.check,
    "schedule": scheduling.check,
    "mark_seen": scheduling.check,
    "bury": scheduling.check_letters,
    "replay": dead_letters.check,
    "drop": dead_letters.check,
    "retire": _check_queue,
    "unretire": _check_queue,
    "wake": _check_queue,
    "snooze": _check_snooze,
    "set_queue": _check_set_queue,
}


_ARGUMENTS: dict[str, frozenset[str]] = {
    "adjust": frozenset(("match", "set", "dry_run", "survey", "promised")),
    "withdraw": frozenset(("id", "survey", "promised")),
    "undo": frozenset(("id", "force")),
    "discard": frozenset(("id",)),
    "delete": frozenset(("queue", "pattern", "dry_run", "for_good", "timeless")),
    "schedule": frozenset(("uris", "revived", "upto", "in_place")),
    "mark_seen": frozenset(("uris", "charge")),
    "bury": frozenset(("uris", "reasons")),
    "replay": frozenset(("ids", "queue")),
    "drop": frozenset(("ids", "queue", "for_good")),
    "retire": frozenset(("queue",)),
    "unretire": frozenset(("queue",)),
    "snooze": frozenset(("queue", "until")),
    "wake": frozenset(("queue",)),
    "set_queue": frozenset(("queue", "interval", "max_completed")),
    "pause": frozenset(("reason",)),
    "resume": frozenset(),
    "terminate": frozenset(),
}
"""The arguments that each command takes; for a revival, the lines of the log that its URIs come from.

`timeless`: patterns have no time limit, so that all replicas delete the same URIs.
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
