"""The undoing of a command on selected queues, in steps: each queue that has not changed since is as it was before.

Those that have changed since stay as they are, unless the undo is forced: the undo keeps them, so that an undo of it
with force restores them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from budgetfrontier.core.effect_words import PACE, entry_in_words, in_words, pace_in_words
from budgetfrontier.core.model import QueueRecord
from budgetfrontier.core.units import format_time
from budgetfrontier.engine.commands import queue_commands
from budgetfrontier.engine.commands.selection import count_paces
from budgetfrontier.engine.commands.state_preview import look_at_queue
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.undoing import NOTHING, PACING, RETIRING, is_as_left
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.storage import keys, removed
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry, Progress
from budgetfrontier.storage.removed import Block, ChangedQueue, Kept, convert_kept, decode_changed, kept
from budgetfrontier.storage.view import View


def kept_by(entry: AuditEntry, command: str) -> Kept:
    """Return the place of the queues that a command has changed. Raises FrontierError if none were kept."""
    found = kept(entry.effect)
    if found is not None:
        return found
    if entry.command == "undo":
        raise FrontierError(f"{entry.id} has undone a command on many queues: give that again, and not an undo of this")
    if not entry.effect.get("changed"):
        raise FrontierError(f"{entry_in_words(entry.id, command)}, {NOTHING}")
    raise FrontierError(
        f"{entry_in_words(entry.id, command)}, cannot be undone: it was for good; give the opposite command "
        "with the same selection"
    )


def start(entry: AuditEntry, command: str) -> Progress:
    """Return the progress of an undo that begins. Raises FrontierError if nothing was kept."""
    source = msgspec.to_builtins(kept_by(entry, command))
    return Progress([], {"command": command, "restored": 0, "left": 0, "queues": [], "changed": [], "of": source})


def differences(found: dict[str, Any], before: dict[str, Any], after: dict[str, Any], command: str) -> list[str]:
    """Return the differences between a queue now and after a command, in the fields that `is_as_left` compares."""
    if command in RETIRING:
        same = is_as_left(found, before, after, command)
        return [] if same else [f"it is {_state(found)}, and was {_state(after)}"]
    if command in PACING:
        return [
            f"its {in_words(name)} is {_shown(name, found[name])}, and was {_shown(name, after[name])}"
            for name in PACE
            if before[name] != after[name] != found[name]
        ]
    moved = []
    if found["block"] != after["block"]:
        moved.append(_moved("blocked", found["block"], after["block"]))
    rests, rested = Waits.told(found).unblocked, Waits.told(after).unblocked
    if command == "wake" and rests != rested:
        moved.append(_moved("at rest", rests, rested))
    return moved


def _moved(how: str, now: float, was: float) -> str:
    """Return that the end of a wait has moved; if that is by less than a second, without the times."""
    until, before = _until(how, now), _until(how, was)
    return f"it is {until}, and was {before}" if until != before else f"it is {until}, by a later command"


def _state(look: dict[str, Any]) -> str:
    """Return the state of a queue, and whether its operator has retired it."""
    return f"{look['state']} by an operator" if look["by_name"] else str(look["state"])


def _shown(name: str, value: float | None) -> str:
    return "that of the settings" if value is None else pace_in_words(name, value)


def _until(how: str, when: float) -> str:
    return f"{how} until {format_time(when)}" if when > 0 else f"not {how}"


def step(kernel: Kernel, progress: Progress, limit: int, now: float, *, force: bool) -> bool:
    """Undo the command on the next queues; return whether these were the last. O(limit). Raises FrontierError."""
    effect, queues = progress.effect, kernel.tables.queues
    found, command = convert_kept(effect["of"]), effect["command"]
    blocks, _ = kernel.tables.removed.read(found.number, 0, limit)
    changed = list(_changed(blocks))
    restored: list[ChangedQueue] = []
    left: dict[bytes, bytes] = {}
    for queue, one in _there(queues.find, changed):
        if _count(effect, queue, one, command, force=force):
            restored.append(one)
        else:
            left[keys.u32.pack(queue.id)] = encode(one)
    kernel.tables.removed.keep(effect, keys.QUEUES, dict.fromkeys(left), instead=left)
    for queue, one in _there(queues.find, restored):
        queue_commands.restore(command, kernel, queue, one.before, one.after, now)
        if queues.overfull:
            queues.trim()
    done = kernel.tables.removed.remove(found.number, len(blocks))
    if done:
        del effect["of"]
    return done


def _there(
    find: Callable[[str], QueueRecord | None], changed: Iterable[ChangedQueue]
) -> Iterator[tuple[QueueRecord, ChangedQueue]]:
    """Yield the queues that are still there, as they are now, and as they were changed."""
    for one in changed:
        queue = find(one.queue)
        if queue is not None:
            yield queue, one


def _count(effect: dict[str, Any], queue: QueueRecord, one: ChangedQueue, command: str, *, force: bool) -> bool:
    """Count a queue in the effect of an undo; return whether it is restored."""
    found = look_at_queue(queue)
    if not force and not is_as_left(found, one.before, one.after, command):
        effect["left"] += 1
        if len(effect["changed"]) < NAMED_QUEUES:
            effect["changed"].append(
                f"{queue.queue}: {' and '.join(differences(found, one.before, one.after, command))}"
            )
        return False
    effect["restored"] += 1
    if command in PACING:
        count_paces(effect, "paces_again", one.before, [name for name in PACE if one.before[name] != one.after[name]])
    if len(effect["queues"]) < NAMED_QUEUES:
        effect["queues"].append(queue.queue)
    return True


def preview(view: View, entry: AuditEntry, command: str, *, force: bool) -> dict[str, Any]:
    """Return the effect that an undo would have. O(queues changed). Raises FrontierError."""
    effect = start(entry, command).effect
    found = convert_kept(effect.pop("of"))
    for queue, one in _there(view.find_queue, _changed(removed.blocks(view, found.number))):
        _count(effect, queue, one, command, force=force)
    return effect


def _changed(blocks: Iterable[Block]) -> Iterator[ChangedQueue]:
    return (decode_changed(value) for block in blocks for _, value in block.records)
