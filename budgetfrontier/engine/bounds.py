"""How large plain data would be once it is encoded, found out without encoding it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

TOO_LARGE, TOO_DEEP = "too large", "nested too deep"
_END = object()


def excess(value: object, *, size: int, depth: int) -> str:
    """Why plain data has no room ("": it has): more than about `size` bytes, or nested deeper than `depth`.

    O(size), whatever refers to itself, or again and again to the same; an encoder would take all the memory there is.
    """
    levels: list[Iterator[object]] = [iter((value,))]
    while levels:
        item = next(levels[-1], _END)
        if item is _END:
            levels.pop()
            continue
        size -= 1
        if isinstance(item, str | bytes | bytearray):
            size -= len(item)
        elif isinstance(item, dict):
            levels.append(chain(item, item.values()))
        elif isinstance(item, list | tuple | set | frozenset):
            levels.append(iter(item))
        if size < 0:
            return TOO_LARGE
        if len(levels) > depth + 1:
            return TOO_DEEP
    return ""
