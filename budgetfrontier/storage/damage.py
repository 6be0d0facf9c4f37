"""The error for damaged stored bytes, and the format in which problems are reported.

Only this error and those of LMDB mean that the files of a frontier are damaged: a KeyError or a ValueError may come
from a bug, a policy or a hook.
"""

from __future__ import annotations

MAX_REPORTED = 20
"""The most problems listed in one message."""
_MORE = "...and "


class Damage(ValueError):
    """Stored bytes cannot be read or are contradictory. `lmdb_env.translate_error` turns it into a CorruptFrontier."""


def report(problems: list[str]) -> str:
    """Return a message with the first problems, one per line, and the number of further ones."""
    more = f"\n{_MORE}{len(problems) - MAX_REPORTED} more" if len(problems) > MAX_REPORTED else ""
    return "\n".join(problems[:MAX_REPORTED]) + more


def in_a_line(message: object) -> str:
    """Return a message for a log, which `report` may have made: its first problem, and the number of further ones.

    >>> in_a_line("queues: 1"), in_a_line(report([f"queues: {number}" for number in range(30)]))
    ('queues: 1', 'queues: 0, and 29 more')
    """
    first, *rest = str(message).splitlines() or [""]
    more = len(rest) + (int(rest[-1].split()[1]) - 1 if rest and rest[-1].startswith(_MORE) else 0)
    return f"{first}, and {more:,} more" if more else first
