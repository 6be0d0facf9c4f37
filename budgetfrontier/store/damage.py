"""The error of stored bytes, raised where they are read, and how problems are reported.

Only this, and LMDB's own errors, tell that the files of a frontier are damaged: a KeyError or a ValueError may be a bug
of ours, or come from somebody's policy or hook.
"""

from __future__ import annotations

MAX_REPORTED = 20
"""Problems in one message."""


class Damage(ValueError):
    """Stored bytes cannot be read, or contradict others; `lmdb_env.translate_error` makes a CorruptFrontier of it."""


def report(problems: list[str]) -> str:
    """Return a message of the first problems, a line each, and of how many more there are."""
    more = f"\n...and {len(problems) - MAX_REPORTED} more" if len(problems) > MAX_REPORTED else ""
    return "\n".join(problems[:MAX_REPORTED]) + more
