"""The undoing of commands by their audit entries: changes of adjustments, of a queue, of the crawl, and deletions.

A command is not undone if its objects have changed since, unless that is forced. An undo can be undone itself, except
for that of a deletion; that of a command on selected queues only for the queues that it has left. The undo of `bury`
deletes, and keeps the records as a deletion does.
"""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlState
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import restoring, undo_bury, undo_queues
from budgetfrontier.engine.commands.adjustment import (
    Edit,
    check_figures,
    edit,
    kept_figures,
    kept_promise,
    standing_of,
)
from budgetfrontier.engine.commands.queue_commands import restore
from budgetfrontier.engine.commands.state_preview import look_at_crawl, look_at_queue
from budgetfrontier.engine.commands.undo_checks import (
    PAUSED,
    cannot,
    check_adjusting,
    check_crawl,
    check_list,
    check_queue,
    find,
    is_of_many,
    key_of,
    list_of,
)
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.undoing import ADJUSTING, BURYING, DELETING, ON_QUEUES, PAUSING
from budgetfrontier.storage.records import AuditEntry, Progress


def check(args: dict[str, Any]) -> None:
    """Raise for an undo that could not be applied."""
    int(args["id"])
    check_figures(args)


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of an undo, or of a `discard`, that begins."""
    return Progress([], {})


def step(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Undo the command of an audit entry: in one step, or in many for `delete`, `drop`, `bury` and selected queues.

    Raises FrontierError; in the first step nothing has changed then. Returns whether this was the last step.
    """
    if not progress.effect and args.get("list"):
        progress.effect = _undo_list(kernel, args, now)
        return True
    if not progress.effect:
        view = kernel.tables.env.view()
        entry, command = find(view, int(args["id"]), "undo")
        force = bool(args.get("force"))
        if entry.command == "bury":
            begun = undo_bury.start()
        elif command in DELETING | BURYING:
            begun = restoring.start(entry, restoring.kept_by(entry, command), force=force)
        elif is_of_many(entry, command):
            begun = undo_queues.start(entry, command)
        else:
            progress.effect = {"command": command, **_at_once(kernel, entry, command, args, now)}
            return True
        progress.at, progress.effect = begun.at, begun.effect
    if "restored" in progress.effect:
        return undo_queues.step(kernel, progress, limit, now, force=bool(args.get("force")))
    if "source" in progress.effect:
        return restoring.step(kernel, admitter, args, progress, limit, now)
    buried = kernel.tables.env.view().audit_entry(int(args["id"]))
    assert buried is not None
    return undo_bury.step(kernel, admitter, buried, progress, limit, force=bool(args.get("force")))


def discard(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Remove the next blocks of what the command of an audit entry has kept; return whether these were the last.

    Raises FrontierError; in the first step nothing has changed then. O(limit).
    """
    entry, command = find(kernel.tables.env.view(), int(args["id"]), "discard")
    if not progress.effect:
        progress.effect = {"command": command, "bytes": 0}
    number, before = restoring.kept_by(entry, command).number, kernel.counters.removed
    done = kernel.tables.removed.remove(number, limit)
    progress.effect["bytes"] += before - kernel.counters.removed
    return done


def _at_once(kernel: Kernel, entry: AuditEntry, command: str, args: dict[str, Any], now: float) -> dict[str, Any]:
    force = bool(args.get("force"))
    if command in ADJUSTING:
        kept = kept_figures(kernel, standing_of(kernel, entry, args.get("then")), args)
        return _undo_adjusting(kernel, entry, force, now) | kept
    if command in ON_QUEUES:
        return _undo_queue(kernel, entry, command, force, now)
    if command in PAUSING:
        return _undo_crawl(kernel, entry, force)
    raise cannot(entry, command)


def _undo_list(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    of_list = list_of(kernel.tables.env.view(), int(args["id"]))
    change, entries = check_list(of_list, kernel.tables.in_force.adjustments, force=bool(args.get("force")))
    then_of = {str(one.id): standing_of(kernel, one, None) for one in entries}
    effect = {"command": "adjust", "entries": [one.id for one in entries], "then_of": then_of}
    return effect | _edited(kernel, change, now) | kept_promise(args)


def _undo_adjusting(kernel: Kernel, entry: AuditEntry, force: bool, now: float) -> dict[str, Any]:
    return _edited(kernel, check_adjusting(entry, kernel.tables.in_force.adjustments, force=force), now)


def _edited(kernel: Kernel, change: Edit, now: float) -> dict[str, Any]:
    effect = {"removed": list(change.remove), "restored": [one.id for one in change.restore]}
    return effect | edit(kernel, change, now)


def _undo_queue(kernel: Kernel, entry: AuditEntry, command: str, force: bool, now: float) -> dict[str, Any]:
    key, before, after = key_of(entry), entry.effect["before"], entry.effect["after"]
    queue = check_queue(entry, command, kernel.tables.queues.find(key), force=force)
    found = look_at_queue(queue)
    restore(command, kernel, queue, before, after, now)
    return {"queue": key, "before": found, "after": look_at_queue(queue)}


def _undo_crawl(kernel: Kernel, entry: AuditEntry, force: bool) -> dict[str, Any]:
    counters, found, before = kernel.counters, look_at_crawl(kernel.counters), entry.effect["before"]
    check_crawl(entry, found, force=force)
    if before["state"] in PAUSED:
        counters.state = crawl_states.after_pause(counters.state, len(kernel.tables.leases.out))
        counters.pause_reason = before.get("pause_reason") or "operator"
    else:
        counters.state, counters.pause_reason = crawl_states.after_resume(counters.state, counters.scheduled), None
    return {"before": found, "after": look_at_settled(kernel)}


def look_at_settled(kernel: Kernel) -> dict[str, Any]:
    """Return the fields of the crawl after a command, once its state has settled: with nothing left, it is over."""
    after = look_at_crawl(kernel.counters)
    if after["state"] is not CrawlState.RUNNING:
        return after
    return crawl_states.settled(after, kernel.next_state())
