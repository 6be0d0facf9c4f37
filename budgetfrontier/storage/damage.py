"""The error for damaged stored bytes, and the format in which problems are reported.

Only this error and those of LMDB mean that the files of a frontier are damaged: a KeyError or a ValueError may come
from a bug, a policy or a hook.
"""

from __future__ import annotations

MAX_REPORTED = 20
"""The most problems listed in one message."""


class Damage(ValueError):
    """Stored bytes cannot be read or are contradictory. `lmdb_env.translate_error` turns it into a CorruptFrontier."""


def report(problems: list[str]) -> str:
    """Return a message with the first problems, one per line, and the number of further ones."""
    more = f"\n...and {len(problems) - MAX_REPORTED} more" if len(problems) > MAX_REPORTED else ""
    return "\n".join(problems[:MAX_REPORTED]) + more
