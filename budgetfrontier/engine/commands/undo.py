"""The undoing of commands by their audit entries: changes of adjustments, of a queue, of the crawl, and deletions.

What has changed since is not undone unless that is forced. An undo can be undone itself, but for that of a deletion.
"""

from __future__ import annotations

from typing import Any

from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import restoring
from budgetfrontier.engine.commands.adjustment import Edit, adjustments_of, edit
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.model import CrawlState, QueueRecord
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.queue_states import READY, RETIRED, SNOOZED
from budgetfrontier.rules.undoing import ADJUSTING, DELETING, PAUSING, RETIRING, WAITING, command_of
from budgetfrontier.settings.overrides import Override
from budgetfrontier.store.records import AuditEntry, Progress
from budgetfrontier.store.removed import ended

_PAUSED = frozenset((CrawlState.PAUSING, CrawlState.PAUSED))
_FORCE = "`undo --force` does it nevertheless"


def check(args: dict[str, Any]) -> None:
    """Raise for an undo that could not be applied."""
    int(args["id"])


def look_at_queue(queue: QueueRecord) -> dict[str, Any]:
    """Return what commands change of a queue, as the audit keeps it before and after."""
    return {
        "state": queue.state,
        "wake_time": queue.wake_time,
        "queued": queue.queued,
        "by_name": bool(queue.by_name),
        "block": queue.block,
    }


def look_at_crawl(kernel: Kernel) -> dict[str, Any]:
    """Return what commands change of the crawl, as the audit keeps it before and after."""
    return {"state": kernel.counters.state, "pause_reason": kernel.counters.pause_reason}


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of an undo that begins."""
    return Progress([], {})


def step(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Undo the command of an audit entry: in one step, or what `delete` and `drop` removed in many.

    Raises FrontierError; in the first step nothing has changed then. Returns whether this was the last step.
    """
    if not progress.at:
        entry, command, view = *_found(kernel, args, "undo"), kernel.tables.env.view()
        force = bool(args.get("force"))
        if command not in DELETING:
            progress.effect = {"command": command, **_at_once(kernel, entry, command, force, now)}
            return True
        begun = restoring.start(view, entry, restoring.kept_by(entry, command), force=force)
        progress.at, progress.effect = begun.at, begun.effect
    return restoring.step(kernel, args, progress, limit, now)


def discard(kernel: Kernel, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Remove what the command of an audit entry has kept of what it deleted. Raises FrontierError."""
    return restoring.discard(kernel, *_found(kernel, args, "discard"))


def _found(kernel: Kernel, args: dict[str, Any], what: str) -> tuple[AuditEntry, str]:
    """Return the audit entry that is to be undone, or discarded, and its command. Raises FrontierError."""
    number, view = int(args["id"]), kernel.tables.env.view()
    entry = view.audit_entry(number)
    if entry is None:
        raise FrontierError(f"there is no audit entry {number}; `budgetfrontier audit JOB` lists them")
    command = command_of(entry.command, entry.effect)
    if what == "discard" and entry.command not in DELETING:
        raise FrontierError(f"{number}, {entry.command}, has kept nothing: only what was deleted is kept")
    if entry.error and not entry.effect.get("kept"):
        raise FrontierError(f"{number}, {command}, was refused: there is nothing to {what}")
    end = ended(view, number).get(number)
    if end is not None:
        if end.command == "discard":
            raise FrontierError(f"{number}, {command}, cannot be undone: {end.id} has discarded what was kept of it")
        raise FrontierError(f"{number}, {command}, is undone already")
    return entry, command


def _at_once(kernel: Kernel, entry: AuditEntry, command: str, force: bool, now: float) -> dict[str, Any]:
    if command in ADJUSTING:
        return _undo_adjusting(kernel, entry, force, now)
    if command in RETIRING | WAITING:
        return _undo_queue(kernel, entry, command, force, now)
    if command in PAUSING:
        return _undo_crawl(kernel, entry, force)
    raise FrontierError(f"{entry.id}, {command}, cannot be undone; the audit says what it has done")


def _undo_adjusting(kernel: Kernel, entry: AuditEntry, force: bool, now: float) -> dict[str, Any]:
    inverse = entry.effect.get("inverse") or {"remove": [entry.id], "restore": []}  # of an older version
    there = {one.id: one for one in adjustments_of(kernel)}
    restore = [Override(one["match"], one["set"], id=one["id"]) for one in inverse["restore"]]
    restore = [one for one in restore if one.id not in there]
    remove = [number for number in inverse["remove"] if number in there]
    if not remove and not restore:
        raise FrontierError(f"what {entry.id} has changed is not in force any more: later commands have replaced it")
    names = {name for one in (*restore, *(there[number] for number in remove)) for name in one.set}
    later = [one.id for one in there.values() if one.id > entry.id and names & one.set.keys()]
    gone = len(remove) < len(inverse["remove"])
    if (later or gone) and not force:
        what = f"adjustment {later[-1]} sets the same settings" if later else "a part of it was replaced"
        raise FrontierError(f"{entry.id} is not undone, because {what} since; {_FORCE}")
    return {"removed": remove, "restored": [one.id for one in restore]} | edit(kernel, Edit(remove, restore), now)


def _undo_queue(kernel: Kernel, entry: AuditEntry, command: str, force: bool, now: float) -> dict[str, Any]:
    key = str(entry.args.get("queue", entry.effect.get("queue")))
    queue = kernel.tables.queues.find(key)
    before, after = entry.effect["before"], entry.effect["after"]
    if queue is None:
        raise FrontierError(f"there is no queue {key!r} any more")
    if "block" not in before:
        raise FrontierError(f"{entry.id} was recorded by an older version, without what an undo needs")
    if before == after:
        raise FrontierError(f"{entry.id}, {command}, has changed nothing")
    found = look_at_queue(queue)
    if not force and _aspect(found, command) != _aspect(after, command):
        states = f"it is {found['state']}, and was {after['state']} after {entry.id}"
        raise FrontierError(f"queue {key} has changed since: {states}; {_FORCE}")
    if command in RETIRING:
        _restore_retirement(kernel, queue, before)
    else:
        _restore_wait(kernel, queue, before, after, now)
    return {"queue": key, "before": found, "after": look_at_queue(queue)}


def _aspect(look: dict[str, Any], command: str) -> tuple[Any, ...]:
    """Return the part of a queue's look that a command, or its undo, has set."""
    if command in RETIRING:
        return look["state"] == RETIRED, look["by_name"]
    return look["block"], look["wake_time"] if command == "wake" else None


def _restore_retirement(kernel: Kernel, queue: QueueRecord, before: dict[str, Any]) -> None:
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


def _restore_wait(
    kernel: Kernel, queue: QueueRecord, before: dict[str, Any], after: dict[str, Any], now: float
) -> None:
    """Restore the block and the wake time; a delay that has begun since stays."""
    rotation = kernel.tables.rotation
    queue.block = before["block"]
    if queue.wake_time == after["wake_time"] or before["wake_time"] > queue.wake_time:
        rotation.set_wake(queue, before["wake_time"])
    if queue.state is READY and queue.wake_time > now:
        rotation.move(queue, SNOOZED)


def _undo_crawl(kernel: Kernel, entry: AuditEntry, force: bool) -> dict[str, Any]:
    before, after = entry.effect["before"], entry.effect["after"]
    counters, found = kernel.counters, look_at_crawl(kernel)
    if before["state"] == after["state"]:
        raise FrontierError(f"{entry.id} has changed nothing: the crawl was {before['state']} before it, too")
    was_paused = before["state"] in _PAUSED
    if (found["state"] in _PAUSED) == was_paused or found["state"] is CrawlState.TERMINATED:
        raise FrontierError(f"the crawl is {found['state']}: there is nothing left of {entry.id} to undo")
    same = after["state"] in _PAUSED or found["state"] == after["state"]
    if not force and not (same and found["pause_reason"] == after.get("pause_reason")):
        raise FrontierError(f"the crawl has changed since: it is {found['state']}; {_FORCE}")
    if was_paused:
        counters.state = crawl_states.after_pause(counters.state, len(kernel.tables.leases.out))
        counters.pause_reason = before.get("pause_reason") or "operator"
    else:
        counters.state, counters.pause_reason = crawl_states.after_resume(counters.state, counters.scheduled), None
    return {"before": found, "after": look_at_crawl(kernel)}
