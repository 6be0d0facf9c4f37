"""Conversions of plain data to types, with the fields collected beforehand, usually when a module is imported.

msgspec collects the fields of a type at its first use, and without a lock: if several threads use a type for the first
time at once, the process ends with SIGSEGV. Decoders are therefore made when a module is imported, too. A converter of
a type that is known only later may be made in any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any

import msgspec

_collecting = RLock()


def converter(kind: Any) -> Callable[..., Any]:
    """Return `msgspec.convert` for one type, with its options. It raises msgspec.ValidationError."""
    with _collecting:
        msgspec.msgpack.Decoder(kind)  # collects the fields
    return partial(msgspec.convert, type=kind)


def plain(value: object) -> object:
    """Return text and whole numbers of subclasses, such as `numpy.str_`, as plain ones; TypeError for others."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
