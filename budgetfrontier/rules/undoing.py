"""The commands that `undo` takes back, and which entries of the audit it can."""

from __future__ import annotations

from typing import Any

ADJUSTING = frozenset(("adjust", "withdraw"))
RETIRING = frozenset(("retire", "unretire"))
WAITING = frozenset(("snooze", "wake"))
PACING = frozenset(("set_queue",))
"""The commands that give a queue an interval and a limit of its own."""
PAUSING = frozenset(("pause", "resume"))
DELETING = frozenset(("delete", "drop", "forget"))
"""The commands that keep the records that they delete."""
BURYING = frozenset(("bury",))
"""The command that adds dead letters: its undo keeps the records that it deletes."""
ENDING = frozenset(("undo", "discard"))
"""The commands after which another one cannot be undone any more."""


def command_of(command: str, effect: dict[str, Any]) -> str:
    """Return the command that an entry of the audit is about: for an undo, the command that was undone."""
    return str(effect.get("command", command))


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
    return about in RETIRING | WAITING | PACING | PAUSING and effect.get("before") != effect.get("after")
