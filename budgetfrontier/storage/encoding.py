"""The encoding of records: msgpack arrays, in which missing last fields get their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from budgetfrontier.core.converters import plain
from budgetfrontier.storage.damage import Damage

encode = msgspec.msgpack.Encoder(enc_hook=plain).encode

_T = TypeVar("_T")


def decoder(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a decoder for one type of records, which raises Damage if it cannot decode a value."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(value: bytes) -> _T:
        try:
            return decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise Damage(str(e)) from None

    return decoded
