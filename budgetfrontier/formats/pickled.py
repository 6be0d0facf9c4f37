"""Pickles of plain data, read without unpickling: nothing is imported, called or built that a pickle names.

`pickletools.genops` says what the operations of a pickle are; those that make containers, numbers and text are done
here. Whatever else a pickle asks for leaves an Opaque in its place, so that what is around it can still be used.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from typing import IO, Any

from budgetfrontier.formats.records import LARGEST


class Opaque:
    """What stands for an object that was not made."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unreadable(ValueError):
    """No pickle: what follows it in its file cannot be found either."""


_MARK = object()
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_OPAQUE = frozenset(("GLOBAL", "PERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"))
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,  # a set would hash what it holds, which a few bytes can make endless
}
_FROM_MARK: dict[str, Callable[[list[Any]], Any]] = {
    "LIST": list,
    "TUPLE": tuple,
    "FROZENSET": list,
    "DICT": lambda items: dict(_pairs(items)),
    "OBJ": lambda items: Opaque(getattr(items[0], "name", "an object")),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_VALUES = (
    frozenset(opcode.name for opcode in pickletools.opcodes if opcode.arg) - _PUT - _GET - _OPAQUE - _NOTHING - {"INST"}
)
"""Operations that are a number, bytes or text."""


class Window:
    """A file of which no more than so many bytes are read."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int) -> bytes:
        self._spend(size)
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(self._left + 1)
        self._spend(len(line))
        return line

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(f"more than {LARGEST >> 20} MiB")


def load(file: IO[bytes]) -> object:
    """The value of the pickle that a file goes on with; the file is then right behind it. Raises Unreadable.

    Some 0.1 ms for a request.
    """
    try:
        return _run(Window(file, LARGEST))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


def _run(file: Any) -> object:
    stack: list[Any] = []
    memo: dict[object, Any] = {}
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _PUT:
            memo[argument] = stack[-1]
        elif name in _GET:
            stack.append(memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name in _FROM_MARK:
            stack.append(_FROM_MARK[name](_above_mark(stack)))
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            items = [stack.pop()] if name == "APPEND" else _above_mark(stack)
            if isinstance(stack[-1], list):
                stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else _above_mark(stack)
            if isinstance(stack[-1], dict):
                stack[-1].update(_pairs(items))
        elif name == "POP_MARK":
            _above_mark(stack)
        elif name in ("POP", "BUILD"):
            stack.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in _OPAQUE:
            stack.append(Opaque(str(argument or name).replace(" ", ".")))
        elif name == "INST":
            _above_mark(stack)
            stack.append(Opaque(str(argument).replace(" ", ".")))
        elif name == "BINPERSID":
            stack[-1] = Opaque(name)
        elif name == "STACK_GLOBAL":
            stack[-2:] = [Opaque(f"{stack[-2]}.{stack[-1]}")]
        elif name == "REDUCE":
            stack[-2:] = [_reduced(stack[-2], stack[-1])]
        elif name in ("NEWOBJ", "NEWOBJ_EX"):
            del stack[-2 if name == "NEWOBJ_EX" else -1 :]
            stack[-1] = Opaque(getattr(stack[-1], "name", "an object"))
        elif name == "STOP":
            return stack.pop()
        elif name not in _NOTHING:
            raise ValueError(f"unknown operation {name}")
    raise ValueError("it breaks off")


def _reduced(function: Any, arguments: Any) -> object:
    """What a call stands for. Protocols before 3 write bytes as one; any other leaves an Opaque."""
    name = getattr(function, "name", "an object")
    if name == "_codecs.encode" and len(arguments) == 2 and arguments[1] == "latin1":
        return str(arguments[0]).encode("latin-1")
    if name in ("__builtin__.bytes", "builtins.bytes") and arguments == ():
        return b""
    return Opaque(name)


def _above_mark(stack: list[Any]) -> list[Any]:
    """Take what lies above the last mark, and the mark."""
    at = len(stack) - 1 - stack[::-1].index(_MARK)
    items = stack[at + 1 :]
    del stack[at:]
    return items


def _pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The items of a mapping, but for those whose key is a container."""
    return ((key, value) for key, value in zip(items[::2], items[1::2], strict=True) if not isinstance(key, tuple))
