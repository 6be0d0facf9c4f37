"""Decoder of values written by `marshal`, which does not use `marshal`: that may crash on crafted bytes.

The format is CPython's, versions 0 to 4. Only the types of plain data are read; code objects never are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO, Any

from budgetfrontier.tools.importers.allowance import STEP_SIZE, Allowance
from budgetfrontier.tools.importers.import_items import FrozenSetOf, SetOf
from budgetfrontier.tools.importers.pickled import BoundedFile, Unreadable, dict_of

STARTS = b"{\xfb"
"""The bytes that a marshalled mapping may begin with."""
_MAX_DEPTH = 100
_FLAG = 0x80  # set on a value that later ones refer to
_END = b"0"  # ends a mapping
_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_SEQUENCES: dict[bytes, Callable[[list[Any]], Any]] = {
    b")": tuple,
    b"(": tuple,
    b"[": list,
    b"<": SetOf,
    b">": FrozenSetOf,
}


def load(file: IO[bytes], allowance: Allowance) -> object:
    """Read the next value of a file, and leave the file right after it. Raises pickled.Unreadable."""
    try:
        return _MarshalReader(BoundedFile(file, allowance), allowance).value()
    except LookupError:
        raise Unreadable("it is damaged: it refers to a value that is not there") from None
    except (ValueError, TypeError, OverflowError, MemoryError, struct.error) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


class _MarshalReader:
    def __init__(self, file: BoundedFile, allowance: Allowance) -> None:
        self._file = file
        self._allowance = allowance
        self._known: list[Any] = []

    def value(self, depth: int = _MAX_DEPTH, kind: bytes = b"") -> Any:
        """Read the next value; `kind` is its first byte if that has been read already."""
        if not depth:
            raise ValueError("nested too deep")
        self._allowance.spend(STEP_SIZE)
        kind = kind or self._take(1)
        at = None
        if kind[0] & _FLAG:
            kind = bytes((kind[0] & ~_FLAG,))
            at = len(self._known)
            self._known.append(None)
        value = self._of_kind(kind, depth)
        if at is not None:
            self._known[at] = value
        return value

    def _of_kind(self, kind: bytes, depth: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _LEAVES:
            return _LEAVES[kind](self)
        if kind == b"r":
            return self._known[self._number("<I")]
        if kind == b"{":
            return dict_of(self._pairs(depth))
        if kind in _SEQUENCES:
            count = self._number("<B" if kind == b")" else "<I")
            return _SEQUENCES[kind]([self.value(depth - 1) for _ in range(count)])
        raise ValueError(f"type {kind!r} is not plain data")

    def _pairs(self, depth: int) -> Iterator[tuple[Any, Any]]:
        while (kind := self._take(1)) != _END:
            key = self.value(depth - 1, kind)
            yield key, self.value(depth - 1)

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError("it breaks off")
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _bytes(self, form: str) -> bytes:
        return self._take(self._number(form))

    def _long(self) -> int:
        """Read an integer of 15-bit digits; the sign of their count is its sign."""
        count = self._number("<i")
        digits = struct.unpack(f"<{abs(count)}H", self._take(2 * abs(count)))
        value = int("".join(f"{digit:015b}" for digit in reversed(digits)) or "0", 2)
        return -value if count < 0 else value


_LEAVES: dict[bytes, Callable[[_MarshalReader], Any]] = {
    b"i": lambda r: r._number("<i"),
    b"I": lambda r: r._number("<q"),
    b"l": _MarshalReader._long,
    b"g": lambda r: r._number("<d"),
    b"f": lambda r: float(r._bytes("<B")),
    b"s": lambda r: r._bytes("<I"),
    b"t": lambda r: r._bytes("<I").decode("utf-8", "surrogatepass"),
    b"u": lambda r: r._bytes("<I").decode("utf-8", "surrogatepass"),
    b"a": lambda r: r._bytes("<I").decode("latin-1"),
    b"A": lambda r: r._bytes("<I").decode("latin-1"),
    b"z": lambda r: r._bytes("<B").decode("latin-1"),
    b"Z": lambda r: r._bytes("<B").decode("latin-1"),
}
