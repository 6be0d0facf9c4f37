"""How much may be made of a source: one allowance of bytes and steps for a record, and one for all that is read.

What refers to the same again and again, or is packed tight, makes gigabytes of a megabyte. What does not, never spends
as much as it is granted: every byte of a pickle makes one step and one value at the most.
"""

from __future__ import annotations

import re

LARGEST = 16 << 20
"""Bytes of one record as it is stored: a longer one is bad, and never read into memory as a whole."""
RECORD = 32 << 20
"""What may be made of one record, in bytes; a step or a value counts as STEP."""
RATIO, GRACE = 200, 64 << 20
"""What may be made of a source: so many times its size, and so much more."""
STEP = 64
UNKNOWN = 1 << 50
"""The size of what comes through a pipe: its lines are bounded, their number is not."""
_CONTAINER, _ITEM = 256, 16  # of JSON, which is decoded at one go: what they take at the most, about
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class TooMuch(ValueError):
    """A record asks for more than one may take."""


class Exhausted(Exception):
    """A source asks for more than all of it may take: nothing more of it is read."""


class Allowance:
    """What is left for one source, and for its record that is being read."""

    def __init__(self) -> None:
        self._all = GRACE
        self._record = RECORD

    def grant(self, size: int) -> None:
        """So many bytes are there to be read."""
        self._all += RATIO * size

    def begin(self, size: int = 0) -> None:
        """The next record begins, of which so many bytes were read. Raises Exhausted."""
        self._record = RECORD
        self._all -= STEP + size
        if self._all < 0:
            raise Exhausted(
                f"more than {RATIO} times its size would have to be made of it (it refers to the same again and "
                "again, or is compressed without bounds); no more of it was read"
            )

    def spend(self, size: int = STEP) -> None:
        """So many bytes are made of the record. Raises TooMuch."""
        self._record -= size
        self._all -= size
        if self._record < 0:
            raise TooMuch(f"more than {RECORD >> 20} MiB would have to be made of it")

    def spend_json(self, text: bytes) -> None:
        """A JSON text is about to be decoded."""
        size = _size(text)
        self.spend(size if size <= RECORD else _size(_STRINGS.sub(b"", text)))


def _size(text: bytes) -> int:
    """What a JSON text takes when it is decoded, at the most."""
    return len(text) + json_size(text.count(b"[") + text.count(b"{"), text.count(b","))


def json_size(containers: int, items: int) -> int:
    """What so many containers with so many items take."""
    return _CONTAINER * containers + _ITEM * items
