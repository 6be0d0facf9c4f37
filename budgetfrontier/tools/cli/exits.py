"""Exit codes, and the errors that lead to them."""

from __future__ import annotations

OK, ERROR, USAGE, DISK_FULL, CONFIGURATION, LOCKED, DAMAGE, SCOPE = range(8)
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES = {
    OK: "ok",
    ERROR: "error",
    USAGE: "wrong usage",
    DISK_FULL: "disk full",
    CONFIGURATION: "invalid configuration",
    LOCKED: "frontier locked",
    DAMAGE: "damage found",
    SCOPE: "paused: the scope has changed and would disregard much of what is queued",
    INTERRUPTED: "interrupted (`crawl`: 0, stopped at once: 1; `demo`: 1)",
}


def exit_code(error: Exception) -> int | None:
    """Return the exit code of an expected error; None for a bug, whose traceback is printed."""
    from budgetfrontier import errors

    if isinstance(error, errors.CommandInProgress):
        return OK
    if isinstance(error, errors.SettingsError):
        return CONFIGURATION
    if isinstance(error, errors.WrongAddress):
        return USAGE
    if isinstance(error, errors.FrontierLocked):
        return LOCKED
    if isinstance(error, errors.CorruptFrontier):
        return DAMAGE
    if isinstance(error, errors.ScopeChanged):
        return SCOPE
    if isinstance(error, errors.StorageFull):
        return DISK_FULL
    if isinstance(error, OSError):
        return DISK_FULL if error.errno in errors.NO_ROOM else ERROR
    # UnicodeEncodeError: an argument of the command line that is not UTF-8.
    return ERROR if isinstance(error, errors.FrontierError | UnicodeEncodeError) else None
