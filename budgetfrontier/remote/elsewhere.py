"""The methods of `Frontier` that clients do not have, and the commands that do the same."""

from __future__ import annotations

_COMMANDS = {
    "adjust": "adjust",
    "audit": "audit",
    "check": "verify",
    "delete": "delete",
    "drop_dead_letters": "dead-letters --drop",
    "find_url": "explain",
    "report": "report",
    "retire": "retire",
    "set_queue": "set-queue",
    "snooze": "snooze",
    "undo": "undo",
    "unretire": "unretire",
    "verdict": "report",
    "wake": "wake",
    "withdraw": "adjust --remove",
}
_LOCAL = ("atomic", "internals", "note", "open")


def missing(client: object, name: str, *, job: str, where: str = "") -> AttributeError:
    """Return the error for an attribute that a client does not have; `job` is how commands name its crawl."""
    kind = type(client).__name__
    text = f"{kind!r} object has no attribute {name!r}"
    if name in _COMMANDS:
        command, *option = _COMMANDS[name].split()
        text = f"{kind} has no {name}: use `{' '.join(('budgetfrontier', command, job, *option))}`{where}"
    elif name in _LOCAL:
        text = f"{kind} has no {name}: only the process that has opened the frontier can use it"
    return AttributeError(text, name=name, obj=client)
