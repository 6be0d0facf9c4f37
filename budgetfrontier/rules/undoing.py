"""The commands that `undo` takes back, and which entries of the audit it can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.rules.wake_times import Waits

ADJUSTING = frozenset(("adjust", "withdraw"))
RETIRING = frozenset(("retire", "unretire"))
WAITING = frozenset(("snooze", "wake"))
PACING = frozenset(("set_queue",))
"""The commands that give a queue an interval and a limit of its own."""
ON_QUEUES = RETIRING | WAITING | PACING
"""The commands on a queue, or on those that they select."""
PAUSING = frozenset(("pause", "resume"))
ON_CRAWL = PAUSING | {"terminate"}
"""The commands on the state of the crawl."""
DELETING = frozenset(("delete", "drop", "forget"))
"""The commands that keep the records that they delete."""
BURYING = frozenset(("bury",))
"""The command that adds dead letters: its undo keeps the records that it deletes."""
NOTHING = "has changed nothing that its undo would restore"
"""The words of the refusals of a command without an effect."""
NOTHING_KEPT = "has kept nothing for `undo`"
ENDING = frozenset(("undo", "discard"))
"""The commands after which another one cannot be undone any more."""


def command_of(command: str, effect: dict[str, Any]) -> str:
    """Return the command that an entry of the audit is about: for an undo, the command that was undone."""
    return str(effect.get("command", command))


def telling(refusals: Iterable[str]) -> str:
    """Return the refusal of an undo that tells most: one of a partition that the command has changed, if there is one.

    "" without refusals.
    """
    told = [*refusals]
    changed = (one for one in told if not says_nothing(one))
    return next(changed, told[0] if told else "")


def says_nothing(refusal: str) -> bool:
    """Return whether a refusal of an undo, or a discard, says that there is nothing for it."""
    return NOTHING in refusal or NOTHING_KEPT in refusal


def can_be_undone(command: str, effect: dict[str, Any], *, refused: bool) -> bool:
    """Return whether a command with this effect can be undone, if it was not undone yet, and nothing has changed since.

    A command that failed halfway can be if it has deleted URIs or added dead letters, as can an undo of these.
    """
    if effect.get("kept") is not None or effect.get("letters"):
        return True
    about = command_of(command, effect)
    if refused:
        return False
    if about in ADJUSTING:
        return True
    before, after = effect.get("before"), effect.get("after")
    if about in PAUSING:
        return bool(before != after)
    return before is not None and about in ON_QUEUES and has_changed(before, after, about)


def has_changed(before: dict[str, Any], after: dict[str, Any] | None, command: str) -> bool:
    """Return whether a command has changed anything of a queue that its undo restores; both looks are the audit's."""
    return after is not None and _restored(before, command) != _restored(after, command)


def is_as_left(found: dict[str, Any], before: dict[str, Any], after: dict[str, Any], command: str) -> bool:
    """Return whether what a command, or its undo, has set of a queue is as it has left it.

    A block leaves the rests under it, and a new interval the limit of completed URLs.
    """
    if command in PACING:
        looks = zip(*(_restored(look, command) for look in (found, before, after)), strict=True)
        return all(now == then for now, was, then in looks if was != then)
    count = 1 if command == "snooze" else None
    return _restored(found, command)[:count] == _restored(after, command)[:count]


def _restored(look: dict[str, Any], command: str) -> tuple[Any, ...]:
    """Return the part of a queue's look that the undo of a command restores."""
    if command in RETIRING:
        return look["state"] == RETIRED, look["by_name"]
    if command in PACING:
        return look["interval"], look["max_completed"]
    return look["block"], Waits.told(look).unblocked
