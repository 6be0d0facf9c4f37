"""The commands that steer a frontier, and the record of what they did.

A command is applied in one transaction with its audit entry, however it came: through the API, or through the mailbox.
Those that may take long are in `stepwise`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

from budgetfrontier import plugins
from budgetfrontier.engine.commands import deletion, stepwise
from budgetfrontier.engine.commands.dry_run import preview, values
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.model import QueueRecord
from budgetfrontier.patterns import Pattern
from budgetfrontier.rules import crawl_states
from budgetfrontier.settings.overrides import compacted, validate_override
from budgetfrontier.store import keys
from budgetfrontier.store.meta import write_settings


class Adjustment(msgspec.Struct, kw_only=True):
    """The effect of `adjust`, or with `dry_run` the effect that it would have.

    `before` and `after` are the values in force for what `match` names. A dry run counts the queues that it matches,
    and lists those that would retire and revive (the first 1,000; it counts them all), and what the revived could then
    spend; a real one only counts the queues that get another look. `id` is that of its audit entry.
    """

    id: int
    match: str
    set: dict[str, Any]
    dry_run: bool
    before: dict[str, Any]
    after: dict[str, Any]
    matched: int = 0
    retired: list[str] = []
    revived: list[str] = []
    retired_count: int = 0
    revived_count: int = 0
    spend: int = 0


# -- the commands: each changes the kernel and returns the effect that the audit keeps


def _queue(kernel: Kernel, args: dict[str, Any]) -> QueueRecord:
    queue = kernel.tables.queues.find(str(args["queue"]))
    if queue is None:
        raise FrontierError(f"there is no queue {args['queue']!r}; `budgetfrontier queues JOB` lists them")
    return queue


def _look(kernel: Kernel, queue: QueueRecord) -> dict[str, Any]:
    return {"state": queue.state, "wake_time": queue.wake_time, "queued": queue.queued}


def _on_queue(change: Callable[[Kernel, QueueRecord, dict[str, Any], float], None]) -> Operation:
    def apply(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
        queue = _queue(kernel, args)
        before = _look(kernel, queue)
        change(kernel, queue, args, now)
        return {"before": before, "after": _look(kernel, queue)}

    return apply


def _crawl_state(change: Callable[[Kernel, dict[str, Any]], None]) -> Operation:
    def apply(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
        before = kernel.counters.state
        change(kernel, args)
        return {"before": {"state": before}, "after": {"state": kernel.counters.state}}

    return apply


def _pause(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    after = crawl_states.after_pause(counters.state, len(kernel.tables.leases.out))
    if after is not counters.state:
        counters.state, counters.pause_reason = after, str(args.get("reason") or "operator")


def _resume(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    after = crawl_states.after_resume(counters.state, counters.scheduled)
    if after is not counters.state:
        counters.state, counters.pause_reason = after, None


def _terminate(kernel: Kernel, args: dict[str, Any]) -> None:
    counters = kernel.counters
    counters.state, counters.pause_reason = crawl_states.after_terminate(counters.state), None


def adjust(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Append an override to the adjustments, or only say what that would do."""
    override = validate_override(args["match"], args["set"])
    if not override.set:
        raise FrontierError("adjust needs at least one setting to change")
    tables, counters = kernel.tables, kernel.counters
    env, settings = tables.env, tables.in_force.settings
    if args.get("dry_run"):
        return preview(tables.flushed(), override)
    adjustments = compacted([*tables.in_force.adjustments, override])
    before, revived = tables.in_force.effective, counters.retired - counters.retired_by_name
    kernel.rollout.change_settings(settings, adjustments, now, precedence="precedence" in override.set)
    tables.pending.settle()  # an example is looked for among what is pending
    effect = values(env.view(), override, before, tables.in_force.effective) | {"revived_count": revived}
    write_settings(env.txn, env.db[keys.META], settings, adjustments)
    return effect


def _delete(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Say what a delete would do; one that does it takes long."""
    return deletion.preview(kernel.tables.flushed(), args)


Operation = Callable[[Kernel, dict[str, Any], float], dict[str, Any]]

OPERATIONS: dict[str, Operation] = {
    "adjust": adjust,
    "retire": _on_queue(lambda kernel, queue, args, now: kernel.turns.retire(queue)),
    "unretire": _on_queue(lambda kernel, queue, args, now: kernel.turns.unretire(queue)),
    "snooze": _on_queue(lambda kernel, queue, args, now: kernel.turns.snooze(queue, float(args["until"]), now)),
    "wake": _on_queue(lambda kernel, queue, args, now: kernel.turns.wake(queue, now)),
    "pause": _crawl_state(_pause),
    "resume": _crawl_state(_resume),
    "terminate": _crawl_state(_terminate),
}

PREVIEWS: dict[str, Operation] = {"adjust": adjust, "delete": _delete}
"""Those with a `dry_run`."""


def check_command(op: str, args: dict[str, Any]) -> None:
    """Raise for arguments that could not be applied, before anything is changed."""
    if op == "adjust":
        policy = validate_override(args["match"], args["set"]).set.get("cost_policy")
        if policy is not None:
            plugins.resolve("cost", policy)  # one that cannot be imported would end the engine at the next URI
    elif op == "delete":
        fnmatch.translate(args.get("queue") or "")
        try:
            Pattern(args.get("pattern") or "")
        except ValueError as e:
            raise FrontierError(f"{args['pattern']!r} is no regular expression: {e}") from None
    elif op in ("retire", "unretire", "snooze", "wake"):
        str(args["queue"])
        if op == "snooze" and not isfinite(float(args["until"])):
            raise FrontierError("a queue is blocked until a time in epoch seconds; to block it for good, retire it")
    elif op in ("schedule", "mark_seen"):
        list(map(stepwise.uri_from, args["uris"]))
    elif op in ("replay", "drop") and args.get("ids") is not None:
        set(args["ids"])
