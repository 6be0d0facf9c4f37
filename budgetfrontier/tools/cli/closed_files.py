"""Standard files that whoever started the program had closed."""

from __future__ import annotations

import os
import sys

_FILES = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))


def fill_in() -> None:
    """Open /dev/null in the place of each one that is closed, before any other file gets its number.

    stdin is empty, then, and messages are lost. It cannot be written to as stdout: a command whose data are lost fails,
    as if the disk were full.
    """
    for number, (name, mode) in enumerate(_FILES):
        if getattr(sys, name) is not None:
            continue
        fd = os.open(os.devnull, mode)  # the lowest number that is free: its own, unless that has been taken already
        way = "r" if name == "stdin" else "w"
        setattr(sys, name, open(fd, way, encoding="utf-8", errors="backslashreplace", closefd=fd != number))  # noqa: SIM115
