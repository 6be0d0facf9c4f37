"""The last note of a run that could not commit its end: a line in the lock file, below the pid. A copy has one, too.

The file has its block on the disk already, so that the line can be written when the disk is full.
"""

from __future__ import annotations

import msgspec

from budgetfrontier.core.model import RunRow

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunRow).decode


COPIED = b"a copy\n"
"""The first line in the lock file of a copy: its run goes on elsewhere."""


COPIED_FILE = b"a copy of the file\n"
"""The line of a lock file that was copied, or moved to another file system, with the others, as `cp -r` does."""


def how_copied(line: bytes | None) -> str:
    """Return how a frontier with this line was copied, "" if it was not.

    None is the line of a lock file that does not exist, or is empty, as in a copy that no writer has opened.
    """
    if line == COPIED_FILE:
        return "copied while it ran, or after it was killed"
    return "copied while it ran" if line is None or line == COPIED else ""


def encode_note(row: RunRow) -> bytes:
    """Return the line for a run with its end."""
    return _encode(row) + b"\n"


def decode_note(line: bytes | None) -> RunRow | None:
    """Return the run of a line; None if there is none, or it was not written whole."""
    if line is None or not line.endswith(b"\n"):
        return None
    try:
        row = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return row if row.end is not None else None
