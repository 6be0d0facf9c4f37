"""What `undo` must do to the reference model: everything as before, and no more than that if it is not forced.

Each function returns whether it was done; False: it is refused, and nothing has changed.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from tests.stateful.model import EXHAUSTED, INACTIVE, READY, RETIRED, SNOOZED, Adjustment, Known, Look, Model

PAUSED = ("PAUSING", "PAUSED")


def undo(model: Model, number: int, *, force: bool) -> bool:
    """Undo what an audit entry has done; `model.last` is what this has done, for it may be undone, too."""
    entry = model.done[number]
    command = entry["command"]
    if entry.get("discarded") or _is_undone(model, number):
        return False
    if "changed" in entry:
        done = _queues(model, entry, force)
    elif command in ("adjust", "withdraw"):
        done = _adjustments(model, number, entry, force)
    elif command in ("retire", "unretire", "snooze", "wake", "set_queue"):
        done = _restored(entry["before"], command) != _restored(entry["after"], command) and _queue(model, entry, force)
    elif command in ("pause", "resume"):
        done = _crawl(model, entry, force)
    elif command == "delete":
        done = _deletion(model, entry, force)
    elif command == "forget":
        done = _forgetting(model, entry)
    else:
        done = command == "drop" and _drop(model, entry)
    if done:
        model.last["undid"] = number
        model.settle()
    return done


def discard(model: Model, number: int) -> bool:
    """Remove what a command has kept of what it deleted: it cannot be undone any more."""
    entry = model.done[number]
    if entry.get("discarded") or not _kept(entry) or _is_undone(model, number):
        return False
    entry["discarded"] = True
    return True


def kept(model: Model) -> set[int]:
    """The commands of which something is kept for an undo."""
    return {
        number
        for number, entry in model.done.items()
        if _kept(entry) and not entry.get("discarded") and not _is_undone(model, number)
    }


def _kept(entry: dict[str, Any]) -> bool:
    """Whether it has kept anything."""
    kept = any(entry.get(name) for name in ("changed", "later", "waiting", "letters", "forgotten"))
    return kept and not entry.get("for_good")


def _is_undone(model: Model, number: int) -> bool:
    """By an undo that is not undone itself; the undo of one that has left queues goes on with it."""
    undos = ((later, entry) for later, entry in model.done.items() if entry.get("undid") == number)
    return any("changed" in entry or not _is_undone(model, later) for later, entry in undos)


def _adjustments(model: Model, number: int, entry: dict[str, Any], force: bool) -> bool:
    """What came goes, and what went comes back, each if it is still so."""
    there = {one.id for one in model.adjustments}
    remove = [one for one in entry["came"] if one in there]
    restore = [one for one in entry["went"] if one.id not in there]
    if not remove and not restore:
        return False
    changed = [*restore, *(one for one in model.adjustments if one.id in remove)]
    since = any(
        one.id > number and one.sheet == other.sheet and one.names & other.names and _may_meet(one, other)
        for one in model.adjustments
        for other in changed
    )
    if (since or len(remove) < len(entry["came"])) and not force:
        return False
    kept = model.kept([*(one for one in model.adjustments if one.id not in remove), *restore])
    restore = [one for one in restore if one in kept]
    if not remove and not restore:  # later ones have replaced them
        return False
    model.last = {"command": entry["command"], **model.change(remove, restore)}
    return True


def _may_meet(one: Adjustment, other: Adjustment) -> bool:
    """Whether some queue may be matched by both. Only those that are given by their keys are told apart.

    What a sheet sets, and each pattern that it is associated with, stands alone.
    """
    if one.sheet:
        return one.match == other.match
    keys = one.match.removeprefix("queue:"), other.match.removeprefix("queue:")
    if one.match in keys or other.match in keys:
        return True
    return fnmatch(*keys) or fnmatch(*keys[::-1])


def _queues(model: Model, entry: dict[str, Any], force: bool) -> bool:
    """Each that has not changed since, or all."""
    if not _kept(entry):
        return False
    left = []
    for key, before, after in entry["changed"]:
        if not _queue(model, {"command": entry["command"], "key": key, "before": before, "after": after}, force):
            left.append((key, before, after))
    model.last = {"command": entry["command"], "changed": left} if left else {"command": "return"}
    return True


def _queue(model: Model, entry: dict[str, Any], force: bool) -> bool:
    """Its retirement, or its block, is as before; a rest that was earned since stays."""
    key, before, after = entry["key"], entry["before"], entry["after"]
    queue, found = model.queues[key], model.look(key)
    if not force and not _is_as_left(found, before, after, entry["command"]):
        return False
    if entry["command"] == "set_queue":
        if before.interval != after.interval:
            model.set_interval(key, before.interval)
        if before.limit != after.limit:
            model.set_limit(key, before.limit)
    elif entry["command"] in ("snooze", "wake"):
        queue.rest = before.rest if found.rest == after.rest else max(before.rest, found.rest)
        queue.block = before.block
        if queue.state == READY and queue.wake > model.now:
            model.move(queue, SNOOZED)
    elif before.state == RETIRED:
        queue.by_name = before.by_name
        if queue.state != RETIRED:
            model.move(queue, RETIRED)
    else:
        queue.by_name = before.by_name
        if queue.state == RETIRED:
            model.move(queue, INACTIVE if queue.uris else EXHAUSTED)
    model.last = {"command": entry["command"], "key": key, "before": found, "after": model.look(key)}
    return True


def _is_as_left(found: Look, before: Look, after: Look, command: str) -> bool:
    """Whether what the command has set of a queue is as it has left it: a block leaves the rests under it."""
    if command == "set_queue":
        has_moved = before.interval != after.interval != found.interval or before.limit != after.limit != found.limit
        return not has_moved
    return found.block == after.block if command == "snooze" else _restored(found, command) == _restored(after, command)


def _restored(look: Look, command: str) -> object:
    """What the undo of the command restores of a queue."""
    if command in ("retire", "unretire"):
        return look.state == RETIRED, look.by_name
    if command == "set_queue":
        return look.interval, look.limit
    return look.block, look.rest


def _crawl(model: Model, entry: dict[str, Any], force: bool) -> bool:
    (before, reason), after = entry["before"], entry["after"]
    found = (model.state, model.reason)
    if entry["before"] == after or model.state == "TERMINATED" or (model.state in PAUSED) != (after[0] in PAUSED):
        return False
    same = (after[0] in PAUSED or model.state == after[0]) and model.reason == after[1]
    if not same and not force:
        return False
    if before in PAUSED:
        model.state, model.reason = "PAUSING" if model.leases else "PAUSED", reason
    else:
        model.state, model.reason = "RUNNING" if model.counts["scheduled"] else "NEW", None
    model.settle()
    model.last = {"command": entry["command"], "before": found, "after": (model.state, model.reason)}
    return True


def _deletion(model: Model, entry: dict[str, Any], force: bool) -> bool:
    """All come back to their places, uncharged, and not counted as scheduled."""
    if not _kept(entry):
        return False
    queue, (by_name, left, placed) = model.queues[entry["key"]], entry["left"]
    changed = queue.by_name != by_name
    if left == "empty":
        changed |= queue.placed != placed
    elif left is not None:
        changed |= (queue.state == RETIRED) != (left == "RETIRED")
    if changed and not force:
        return False
    later = sorted(entry["later"], key=lambda one: (one[0], one[1].postponed))
    for due, uri in [*later, *((0, uri) for uri in entry["waiting"])]:
        if model.options["keep_urls"] and model.waits(uri.url):
            continue
        if due:
            model.future = sorted([*model.future, (due, uri)], key=lambda due: due[1].postponed)
        else:
            model.place(uri, noted=False)
            queue.placed -= 1
        if uri.directive > 0:
            model.counts["deleted"] -= 1
            if model.options["duplicates"] == "exact":
                model.see(uri.url)
        model.became(uri, "WAITING")
        model.note(uri, due)
    for url, before in entry["rows"].items() if model.known else ():
        row = model.known[url]
        row.created = min(row.created, before.created)
        if before.uri is not None and row.uri is before.uri:
            row.due = before.due
    model.last = {"command": "return"}
    return True


def _forgetting(model: Model, entry: dict[str, Any]) -> bool:
    """It is known again, and since when it was; one that is known by now is a completed URL no second time."""
    if not _kept(entry):
        return False
    url, row = entry["forgotten"], entry["row"]
    if entry["was_seen"]:
        model.see(url)
    if row is not None:
        found = model.known.setdefault(url, Known(row.queue, row.created, None))
        found.created = min(found.created, row.created)
    model.last = {"command": "return"}
    return True


def _drop(model: Model, entry: dict[str, Any]) -> bool:
    """They come back to their places in the list."""
    if not _kept(entry):
        return False
    model.counts["dropped"] -= sum(uri.directive > 0 for uri in entry["letters"])
    model.dead = sorted(model.dead + entry["letters"], key=lambda uri: uri.buried)
    model.last = {"command": "return"}
    return True
