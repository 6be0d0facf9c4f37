"""Pickles of plain data, read without unpickling: nothing is imported, called or built that a pickle names.

`pickletools.genops` says what the operations of a pickle are; those that make containers, numbers and text are done
here. Whatever else a pickle asks for leaves an Opaque in its place, so that what is around it can still be used.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable
from typing import IO, Any

from budgetfrontier.formats.allowance import LARGEST, STEP, Allowance
from budgetfrontier.formats.records import FrozenSetOf, SetOf


class Opaque:
    """What stands for an object that was not made."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unreadable(ValueError):
    """No pickle: what follows it in its file cannot be found either."""


_SHOWN = 200  # characters of a name
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_OPAQUE = frozenset(("GLOBAL", "PERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"))
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": SetOf,
}
_FROM_MARK: dict[str, Callable[[list[Any]], Any]] = {
    "LIST": list,
    "TUPLE": tuple,
    "FROZENSET": FrozenSetOf,
    "DICT": lambda items: dict_of(zip(items[::2], items[1::2], strict=True)),
    "OBJ": lambda items: Opaque(getattr(items[0], "name", "an object")),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_VALUES = (
    frozenset(opcode.name for opcode in pickletools.opcodes if opcode.arg) - _PUT - _GET - _OPAQUE - _NOTHING - {"INST"}
)
"""Operations that are a number, bytes or text."""


class Window:
    """A file of which no more than LARGEST bytes are read, and no more than an allowance has room for."""

    def __init__(self, file: IO[bytes], allowance: Allowance) -> None:
        self._file = file
        self._left = LARGEST
        self._allowance = allowance

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
        self._allowance.spend(size)


def load(file: IO[bytes], allowance: Allowance) -> object:
    """The value of the pickle that a file goes on with; the file is then right behind it. Raises Unreadable.

    Some 0.1 ms for a request.
    """
    try:
        return _run(Window(file, allowance), allowance)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


def _run(file: Any, allowance: Allowance) -> object:
    stack: list[Any] = []
    below: list[list[Any]] = []  # what was on the stack at each mark
    memo: dict[object, Any] = {}
    for opcode, argument, _ in pickletools.genops(file):
        allowance.spend(STEP)
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
            below.append(stack)
            stack = []
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(items[::-1]))
        elif name in _FROM_MARK:
            items, stack = stack, below.pop()
            stack.append(_FROM_MARK[name](items))
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            items, stack = ([stack.pop()], stack) if name == "APPEND" else (stack, below.pop())
            if isinstance(stack[-1], list):
                stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items, stack = ([stack.pop(-2), stack.pop()], stack) if name == "SETITEM" else (stack, below.pop())
            if isinstance(stack[-1], dict):
                stack[-1].update(dict_of(zip(items[::2], items[1::2], strict=True)))
        elif name == "POP_MARK" or (name == "POP" and not stack):
            stack = below.pop()
        elif name in ("POP", "BUILD"):
            stack.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in _OPAQUE:
            stack.append(Opaque(str(argument or name).replace(" ", ".")))
        elif name == "INST":
            stack = below.pop()
            stack.append(Opaque(str(argument).replace(" ", ".")))
        elif name == "BINPERSID":
            stack[-1] = Opaque(name)
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(Opaque(f"{_name(module)[:_SHOWN]}.{_name(attribute)[:_SHOWN]}"))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_reduced(function, arguments, allowance))
        elif name in ("NEWOBJ", "NEWOBJ_EX"):
            del stack[-2 if name == "NEWOBJ_EX" else -1 :]
            stack[-1] = Opaque(getattr(stack[-1], "name", "an object"))
        elif name == "STOP":
            return stack.pop()
        elif name not in _NOTHING:
            raise ValueError(f"unknown operation {name}")
    raise ValueError("it breaks off")


def _reduced(function: Any, arguments: Any, allowance: Allowance) -> object:
    """What a call stands for. Old protocols write bytes and sets as one; any other leaves an Opaque."""
    name = getattr(function, "name", "an object")
    given = arguments if isinstance(arguments, tuple) else ()
    if name == "_codecs.encode" and given[1:] == ("latin1",):
        allowance.spend(len(_name(given[0])))
        return given[0].encode("latin-1")
    if name in _BYTES and arguments == ():
        return b""
    if name in _SETS and len(given) == 1 and isinstance(given[0], list):
        allowance.spend(8 * len(given[0]))
        return _SETS[name](given[0])
    return Opaque(name)


_BYTES = ("__builtin__.bytes", "builtins.bytes")
_SETS: dict[str, type[SetOf]] = {
    f"{module}.{kind.kind}": kind for module in ("__builtin__", "builtins") for kind in (SetOf, FrozenSetOf)
}


def _name(value: object) -> str:
    """Text that a pickle itself uses. Raises TypeError: to write anything else as text may have no end."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text is expected")
    return value


def dict_of(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A mapping. A key that is no text or bytes is an Opaque: the hashes of others can be made to be slow."""
    return {key if isinstance(key, str | bytes) else Opaque("a key"): value for key, value in pairs}
