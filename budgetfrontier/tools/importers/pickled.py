"""Decoder of pickles of plain data, without unpickling: nothing that a pickle names is imported, called or created.

`pickletools.genops` yields the operations of a pickle; operations that make containers, numbers and text are carried
out here. Any other object is represented by an Opaque, so that the data around it can still be used.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable
from typing import IO, Any

from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, STEP_SIZE, Allowance
from budgetfrontier.tools.importers.import_items import FrozenSetOf, SetOf


class Opaque:
    """A placeholder for an object that was not created."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unreadable(ValueError):
    """Not a pickle; the end of it in its file is unknown, too."""


_MAX_NAME = 200  # characters of a module or attribute
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
_IGNORED = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_VALUES = (
    frozenset(opcode.name for opcode in pickletools.opcodes if opcode.arg) - _PUT - _GET - _OPAQUE - _IGNORED - {"INST"}
)
"""Operations that push a number, bytes or text."""


class BoundedFile:
    """A file that is read up to MAX_RECORD_SIZE bytes, and as far as an allowance lasts."""

    def __init__(self, file: IO[bytes], allowance: Allowance) -> None:
        self._file = file
        self._left = MAX_RECORD_SIZE
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
            raise ValueError(f"more than {MAX_RECORD_SIZE >> 20} MiB")
        self._allowance.spend(size)


def load(file: IO[bytes], allowance: Allowance) -> object:
    """Read the pickle that comes next in a file, and leave the file right after it. Raises Unreadable.

    Takes about 0.1 ms for a request.
    """
    try:
        return _run(BoundedFile(file, allowance), allowance)
    except LookupError:  # of the stack, or of the memo
        raise Unreadable("it is damaged: an operation takes a value that is not there") from None
    except (ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise Unreadable(str(error) or type(error).__name__) from None


def _run(file: Any, allowance: Allowance) -> object:
    stack: list[Any] = []
    below: list[list[Any]] = []  # the stack below each mark
    memo: dict[object, Any] = {}
    for opcode, argument, _ in pickletools.genops(file):
        allowance.spend(STEP_SIZE)
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
            stack.append(Opaque(f"{_name(module)[:_MAX_NAME]}.{_name(attribute)[:_MAX_NAME]}"))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_result_of_call(function, arguments, allowance))
        elif name in ("NEWOBJ", "NEWOBJ_EX"):
            del stack[-2 if name == "NEWOBJ_EX" else -1 :]
            stack[-1] = Opaque(getattr(stack[-1], "name", "an object"))
        elif name == "STOP":
            return stack.pop()
        elif name not in _IGNORED:
            raise ValueError(f"unknown operation {name}")
    raise ValueError("it breaks off")


def _result_of_call(function: Any, arguments: Any, allowance: Allowance) -> object:
    """Return the value of a call: bytes and sets in old protocols, an Opaque for any other."""
    name = getattr(function, "name", "an object")
    items = arguments if isinstance(arguments, tuple) else ()
    if name == "_codecs.encode" and items[1:] == ("latin1",):
        allowance.spend(len(_name(items[0])))
        return items[0].encode("latin-1")
    if name in _BYTES and arguments == ():
        return b""
    if name in _SETS and len(items) == 1 and isinstance(items[0], list):
        allowance.spend(8 * len(items[0]))
        return _SETS[name](items[0])
    return Opaque(name)


_BYTES = ("__builtin__.bytes", "builtins.bytes")
_SETS: dict[str, type[SetOf]] = {
    f"{module}.{kind.kind}": kind for module in ("__builtin__", "builtins") for kind in (SetOf, FrozenSetOf)
}


def _name(value: object) -> str:
    """Return text used as a name. Raises TypeError for other types: their conversion to text may not end."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text is expected")
    return value


def dict_of(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a mapping. Keys other than text or bytes become Opaque: hashes of others can be crafted to be slow."""
    return {key if isinstance(key, str | bytes) else Opaque("a key"): value for key, value in pairs}
