"""The encoding of records: msgpack arrays, in which missing last fields get their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from budgetfrontier.core.converters import plain
from budgetfrontier.storage.damage import Damage

encode = msgspec.msgpack.Encoder(enc_hook=plain).encode

_decode_fields: Final = msgspec.msgpack.Decoder(list[Any]).decode
_T = TypeVar("_T")


def with_checksum(record: bytes) -> bytes:
    """Return an encoded array with another first field, the CRC-32 of the record: `row_patches` sees all its fields."""
    return encode([crc32(record), *_decode_fields(record)])


def without_checksum(row: bytes) -> bytes:
    """Return the record in a row that `with_checksum` has made. Raises Damage if any bit is another one."""
    try:
        crc, *fields = _decode_fields(row)
        record = encode(fields)
    except (ValueError, TypeError, RecursionError) as e:  # msgspec's are ValueErrors
        raise Damage(str(e)) from None
    if crc != crc32(record):
        raise Damage("another checksum")
    return record


def decoder(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a decoder for one type of records, which raises Damage if it cannot decode a value."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(value: bytes) -> _T:
        try:
            return decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise Damage(str(e)) from None

    return decoded
