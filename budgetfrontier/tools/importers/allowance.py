"""Bounds on the cost of decoding a source: one allowance of bytes and steps per record, and one for the whole source.

A file that refers to the same value many times, or is highly compressed, can expand from a megabyte to gigabytes. An
ordinary file never reaches its allowance: a byte of a pickle makes one step and one value at most.
"""

from __future__ import annotations

import re

MAX_RECORD_SIZE = 16 << 20
"""The largest record, in bytes as stored: a larger one is bad, and is never read into memory as a whole."""
RECORD_ALLOWANCE = 32 << 20
"""Bytes that decoding one record may take; a step or a value counts as STEP_SIZE bytes."""
SOURCE_RATIO, SOURCE_GRACE = 200, 64 << 20
"""Bytes that decoding a source may take: SOURCE_RATIO times its size, plus SOURCE_GRACE."""
STEP_SIZE = 64
UNKNOWN_SIZE = 1 << 50
"""The size granted to a pipe: its lines are bounded, their number is not."""
_CONTAINER, _ITEM = 256, 16  # bytes of memory, at most, of decoded JSON, roughly: JSON is decoded in one call
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class RecordTooLarge(ValueError):
    """Decoding a record would take more than its allowance."""


class AllowanceExhausted(Exception):
    """Decoding a source would take more than its allowance; reading stops."""


class Allowance:
    """The bytes that one source, and its current record, may still take."""

    def __init__(self) -> None:
        self._all = SOURCE_GRACE
        self._record = RECORD_ALLOWANCE

    def grant(self, size: int) -> None:
        """Extend the allowance of the source for `size` bytes that will be read."""
        self._all += SOURCE_RATIO * size

    def begin(self, size: int = 0) -> None:
        """Begin the next record, with `size` bytes read so far. Raises AllowanceExhausted."""
        self._record = RECORD_ALLOWANCE
        self._all -= STEP_SIZE + size
        if self._all < 0:
            raise AllowanceExhausted(
                f"more than {SOURCE_RATIO} times its size would have to be made of it (it refers to the same again and "
                "again, or is compressed without bounds); no more of it was read"
            )

    def spend(self, size: int = STEP_SIZE) -> None:
        """Count `size` bytes that decoding the record takes. Raises RecordTooLarge."""
        self._record -= size
        self._all -= size
        if self._record < 0:
            raise RecordTooLarge(f"more than {RECORD_ALLOWANCE >> 20} MiB would have to be made of it")

    def spend_json(self, text: bytes) -> None:
        """Count the bytes that decoding a JSON text will take. Raises RecordTooLarge."""
        size = _size(text)
        self.spend(size if size <= RECORD_ALLOWANCE else _size(_STRINGS.sub(b"", text)))


def _size(text: bytes) -> int:
    """Return an upper bound of the bytes that a JSON text takes decoded."""
    return len(text) + json_size(text.count(b"[") + text.count(b"{"), text.count(b","))


def json_size(containers: int, items: int) -> int:
    """Return an upper bound of the bytes that decoded containers with that many items take."""
    return _CONTAINER * containers + _ITEM * items
