"""What is wrong with stored bytes, said where they are read.

Only this, and LMDB's own errors, tell that the files of a frontier are damaged: a KeyError or a ValueError may be a bug
of ours, or come from somebody's policy or hook.
"""

from __future__ import annotations


class Damage(ValueError):
    """Stored bytes cannot be read, or contradict others; `lmdb_env.translate_error` makes a CorruptFrontier of it."""
