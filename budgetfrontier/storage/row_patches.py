"""Patches of rows that are arrays of MessagePack: what makes a row of the one before, if few of its fields differ."""

from __future__ import annotations

from itertools import compress, count
from operator import is_not
from typing import Any, Final

import msgspec

Patch = list[Any]
"""For each field that differs: the number of fields between it and the last one, and what to add to it, or a list with
its new value."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode


def patch(old: bytes, new: bytes) -> Patch | None:
    """Return what makes one row of another; None if that cannot be said, so that it has to be put whole. O(fields)."""
    try:
        fields, wanted = _decode(old), _decode(new)
        result: Patch = []
        last = -1
        for place in compress(count(), map(is_not, fields, wanted)):  # most fields are small numbers
            before, after = fields[place], wanted[place]
            if before == after:
                continue
            is_sum = type(before) is type(after) is int and abs(after - before) <= abs(after)
            result += place - last - 1, after - before if is_sum else [after]
            fields[place] = after
            last = place
        # Not the same always: 0 and 0.0, for instance, are equal, and written differently.
        return result if _encode(fields) == new else None
    except (msgspec.MsgspecError, OverflowError):
        return None


def patched(old: bytes, patch: Patch) -> bytes:
    """Return the row that a patch makes of one. Raises ValueError if it is not a patch of this one."""
    try:
        fields, place = _decode(old), -1
        changes = iter(patch)
        for between, change in zip(changes, changes, strict=True):
            place += between + 1
            fields[place] = change[0] if type(change) is list else fields[place] + change
        return _encode(fields)
    except (msgspec.MsgspecError, LookupError, TypeError, OverflowError) as e:
        raise ValueError(str(e)) from None
