"""The encoding of records: msgpack arrays, in which missing last fields get their defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from budgetfrontier.core.converters import plain
from budgetfrontier.storage.damage import Damage

encode = msgspec.msgpack.Encoder(enc_hook=plain).encode

_T = TypeVar("_T")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decoder(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a decoder for one type of records, which raises Damage if it cannot decode a value."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(value: bytes) -> _T:
        try:
            return decode(value)
        except _UNREADABLE as e:
            raise Damage(str(e)) from None

    return decoded


def decoder_of_many(kind: type[_T]) -> Callable[[Iterable[bytes]], Iterator[_T]]:
    """Return what yields each of many values decoded, and raises Damage at the first that it cannot decode."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(values: Iterable[bytes]) -> Iterator[_T]:
        try:
            yield from map(decode, values)
        except _UNREADABLE as e:
            raise Damage(str(e)) from None

    return decoded
