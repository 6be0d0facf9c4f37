"""The undoing of a command on selected queues, in steps: each queue that has not changed since is as it was before.

Those that have changed since stay as they are, unless the undo is forced. `Progress.at` is the offset in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.commands import queue_commands
from budgetfrontier.engine.commands.queue_commands import ChangedQueue, decode_changed
from budgetfrontier.engine.commands.state_preview import look_at_queue
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.rules.undoing import PACING, RETIRING
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry, Progress
from budgetfrontier.storage.removed import FOLDER, Kept, convert_kept, kept, read_kept
from budgetfrontier.storage.view import View


def kept_by(entry: AuditEntry, command: str) -> Kept:
    """Return the place of the queues that a command has changed. Raises FrontierError if none were kept."""
    found = kept(entry.effect)
    if found is not None:
        return found
    if entry.command == "undo":
        raise FrontierError(f"{entry.id} has undone a command on many queues: give that again, and not an undo of this")
    if not entry.effect.get("changed"):
        raise FrontierError(f"{entry.id}, {command}, has changed nothing")
    raise FrontierError(
        f"{entry.id}, {command} of {entry.effect['changed']:,} queues, cannot be undone: a crawl in partitions, or in "
        "memory, keeps nothing of commands on many queues; give the opposite command with the same selection"
    )


def start(entry: AuditEntry, command: str) -> Progress:
    """Return the progress of an undo that begins. Raises FrontierError if nothing was kept."""
    source = msgspec.to_builtins(kept_by(entry, command))
    return Progress([0], {"command": command, "restored": 0, "left": 0, "queues": [], "of": source})


def aspect(look: dict[str, Any], command: str) -> tuple[Any, ...]:
    """Return the part of a queue's look that a command, or its undo, has set."""
    if command in RETIRING:
        return look["state"] == RETIRED, look["by_name"]
    if command in PACING:
        return look["interval"], look["max_completed"]
    return look["block"], Waits.told(look).unblocked if command == "wake" else None


def step(kernel: Kernel, progress: Progress, limit: int, now: float, *, force: bool) -> bool:
    """Undo the command on the next queues; return whether these were the last. O(limit). Raises FrontierError."""
    effect, queues = progress.effect, kernel.tables.queues
    found, command = convert_kept(effect["of"]), effect["command"]
    changed: list[ChangedQueue] = []
    while progress.at[0] < found.bytes and len(changed) < limit:
        block, progress.at[0] = kernel.tables.removed.read(found, progress.at[0])
        changed += [decode_changed(value) for _, value in block.records]
    for one in changed:
        queue = queues.find(one.queue)
        if queue is not None and _count(effect, queue, one, command, force=force):
            queue_commands.restore(command, kernel, queue, one.before, one.after, now)
        if queues.overfull:
            queues.trim()
    if progress.at[0] < found.bytes:
        return False
    kernel.tables.removed.unneeded(found)
    del effect["of"]
    return True


def _count(effect: dict[str, Any], queue: QueueRecord, one: ChangedQueue, command: str, *, force: bool) -> bool:
    """Count a queue in the effect of an undo; return whether it is restored."""
    if not force and aspect(look_at_queue(queue), command) != aspect(one.after, command):
        effect["left"] += 1
        return False
    effect["restored"] += 1
    if len(effect["queues"]) < NAMED_QUEUES:
        effect["queues"].append(queue.queue)
    return True


def preview(view: View, path: Path, entry: AuditEntry, command: str, *, force: bool) -> dict[str, Any]:
    """Return the effect that an undo would have in the frontier at `path`. O(queues changed). Raises FrontierError."""
    effect = start(entry, command).effect
    found = convert_kept(effect.pop("of"))
    for one in _changed(path, found):
        queue = view.find_queue(one.queue)
        if queue is not None:
            _count(effect, queue, one, command, force=force)
    return effect


def _changed(path: Path, found: Kept) -> Iterator[ChangedQueue]:
    at = 0
    while at < found.bytes:
        block, at = read_kept(path / FOLDER, found, at)
        yield from map(decode_changed, (value for _, value in block.records))
