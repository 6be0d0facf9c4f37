"""Exit codes, and which error leads to which."""

from __future__ import annotations

import errno

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
    """The exit code for an error that a user can meet; None for one that is our own bug and deserves its traceback."""
    from budgetfrontier import errors

    if isinstance(error, errors.CommandInProgress):
        return OK
    if isinstance(error, errors.SettingsError):
        return CONFIGURATION
    if isinstance(error, errors.FrontierLocked):
        return LOCKED
    if isinstance(error, errors.CorruptFrontier):
        return DAMAGE
    if isinstance(error, errors.ScopeChanged):
        return SCOPE
    if isinstance(error, errors.StorageFull):
        return DISK_FULL
    if isinstance(error, OSError):
        return DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else ERROR
    # An argument that is no UTF-8 has come to where text is stored.
    return ERROR if isinstance(error, errors.FrontierError | UnicodeEncodeError) else None
