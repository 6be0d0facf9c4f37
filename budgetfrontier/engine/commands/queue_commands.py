"""The commands that change queues: the one that they name, at once, or all that they select, in steps.

A selected queue is changed as it is when the step comes to it; queues that are created after the command has begun are
left out. How each queue was, and how the command left it, is kept for `undo`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine import arguments
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import selection
from budgetfrontier.engine.commands.selection import (
    SelectedQueues,
    count,
    count_paces,
    count_still_closed,
    count_still_over,
    summary,
)
from budgetfrontier.engine.commands.state_preview import NOT_PACED, look_at_queue
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import wake_times
from budgetfrontier.rules.queue_states import READY, RETIRED, SNOOZED
from budgetfrontier.rules.undoing import PACING, RETIRING
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Progress
from budgetfrontier.storage.removed import ChangedQueue

Look = dict[str, Any]
Change = Callable[[Kernel, QueueRecord, dict[str, Any], float], None]

_LONGEST_INTERVAL = (1 << 32) - 1
"""The most seconds that 32 bits hold."""
_PASSED = 10  # queues that are passed over in the time in which one is changed, or less


def check_paced(kernel: Kernel) -> None:
    """Raise FrontierError unless queues of the frontier may have intervals and limits of their own."""
    if kernel.tables.urls is None:
        raise FrontierError(NOT_PACED)


def _set_queue(kernel: Kernel, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    check_paced(kernel)
    if args.get("interval", queue.interval) != queue.interval:
        kernel.turns.set_interval(queue, float(args["interval"]), now)
    if args.get("max_completed", queue.max_completed) != queue.max_completed:
        kernel.turns.set_limit(queue, int(args["max_completed"]))


CHANGES: dict[str, Change] = {
    "retire": lambda kernel, queue, args, now: kernel.turns.retire(queue),
    "unretire": lambda kernel, queue, args, now: kernel.turns.unretire(queue),
    "snooze": lambda kernel, queue, args, now: kernel.turns.snooze(queue, float(args["until"]), now),
    "wake": lambda kernel, queue, args, now: kernel.turns.wake(queue, now),
    "set_queue": _set_queue,
}


def check(op: str, args: dict[str, Any]) -> None:
    """Raise for arguments that could not be applied."""
    if args.get("match") is None:
        if args.get("queue") is None:
            raise FrontierError(
                f"{command_in_words(op)} what? Give a queue, or the `match` that selects queues; '*' selects all"
            )
        if args.get("states") is not None:
            raise FrontierError("a queue that is named is changed in any state: give `states` with `match`")
    elif args.get("queue") is not None:
        raise FrontierError("give a queue, or the `match` that selects queues, not both")
    else:
        selection.check(args)
    if op == "snooze" and not isfinite(float(args["until"])):
        raise FrontierError("a queue is blocked until a time in epoch seconds; to block it for good, retire it")
    if op == "set_queue":
        _check_pace(args)


def _check_pace(args: dict[str, Any]) -> None:
    if not 0 <= float(args.get("interval", 0)) <= _LONGEST_INTERVAL:
        raise FrontierError(f"an interval is a number of seconds from 0 to {_LONGEST_INTERVAL}, not {args['interval']}")
    if arguments.exactly(args.get("max_completed", 0), 0, 1 << 62) is None:
        error = arguments.error_of_count(args["max_completed"], FrontierError)
        raise error(f"a limit is a whole number of URLs, 0 for none, not {args['max_completed']!r:.60}")


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of a command that begins: the next queue, and the last one that it is about."""
    return Progress([1, None], {} if args.get("queue") is not None else summary())


def step(
    op: str,
    kernel: Kernel,
    admitter: Admitter,
    args: dict[str, Any],
    progress: Progress,
    upto: int,
    limit: int,
    now: float,
) -> bool:
    """Change the queue that a command names, or the next ones that it selects; return whether these were the last.

    Raises FrontierError; this step has changed nothing then. O(limit).
    """
    if args.get("queue") is not None:
        progress.effect = _change_one(op, kernel, args, now)
        return True
    if op == "set_queue":
        check_paced(kernel)
    if progress.at[1] is None:
        progress.at[1] = kernel.counters.queue_id
    at, last = progress.at
    found, progress.at[0] = _next(kernel, args, at, last, limit)
    changed: dict[bytes, bytes] = {}
    for queue in kernel.tables.queues.each(found):
        before, over = look_at_queue(queue), _retires_again(op, kernel, queue)
        CHANGES[op](kernel, queue, args, now)
        after = look_at_queue(queue)
        count_still_over(progress.effect, over)
        count_still_closed(progress.effect, op, before, now)
        count_paces(progress.effect, "paces", before, args)
        if count(progress.effect, queue, before, after):
            changed[keys.u32.pack(queue.id)] = encode(ChangedQueue(queue.queue, before, after))
    if not args.get("for_good"):
        kernel.tables.removed.keep(progress.effect, keys.QUEUES, dict.fromkeys(changed), instead=changed)
    return bool(progress.at[0] > last)


def _change_one(op: str, kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    queue = kernel.tables.queues.find(str(args["queue"]))
    if queue is None:
        raise FrontierError(f"there is no queue {args['queue']!r}; `queues` lists them")
    before, over = look_at_queue(queue), _retires_again(op, kernel, queue)
    CHANGES[op](kernel, queue, args, now)
    effect = {"before": before, "after": look_at_queue(queue)}
    count_still_over(effect, over)
    return effect


def _retires_again(op: str, kernel: Kernel, queue: QueueRecord) -> bool:
    """Return whether a queue that `unretire` brings back is over budget, and retired on its turn."""
    return op == "unretire" and queue.state is RETIRED and kernel.turns.retires_again(queue)


def _next(kernel: Kernel, args: dict[str, Any], at: int, upto: int, limit: int) -> tuple[list[int], int]:
    """Return the next queues that a command selects, and the id from which the next step goes on."""
    found: list[int] = []
    for passed, (queue_id, queue) in enumerate(SelectedQueues(args).queues(kernel.tables.flushed(), at, upto), 1):
        if queue is not None:
            found.append(queue_id)
        if len(found) == limit or passed == limit * _PASSED:
            return found, queue_id + 1
    return found, upto + 1


def restore(op: str, kernel: Kernel, queue: QueueRecord, before: Look, after: Look, now: float) -> None:
    """Undo a command on a queue: the values that it has set return to those before; later changes stay."""
    if op in RETIRING:
        _restore_retirement(kernel, queue, before)
    elif op in PACING:
        if before["interval"] != after["interval"]:
            kernel.turns.set_interval(queue, before["interval"], now)
        if before["max_completed"] != after["max_completed"]:
            kernel.turns.set_limit(queue, before["max_completed"])
    else:
        _restore_waits(kernel, queue, before, after, now)


def _restore_retirement(kernel: Kernel, queue: QueueRecord, before: Look) -> None:
    if before["state"] != RETIRED:
        kernel.turns.unretire(queue)
        queue.by_name = before["by_name"]
    elif before["by_name"]:
        kernel.turns.retire(queue)
    elif queue.state is RETIRED:
        kernel.tables.counters.retired_by_name -= queue.by_name
        queue.by_name = False
    else:
        queue.by_name = False
        kernel.tables.rotation.move(queue, RETIRED)


def _restore_waits(kernel: Kernel, queue: QueueRecord, before: Look, after: Look, now: float) -> None:
    rotation = kernel.tables.rotation
    rotation.set_waits(queue, wake_times.restored(queue, Waits.told(before), Waits.told(after)))
    if queue.state is READY and queue.wake_time > now:
        rotation.move(queue, SNOOZED)


STEPS = {op: partial(step, op) for op in CHANGES}
