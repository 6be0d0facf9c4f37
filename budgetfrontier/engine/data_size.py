"""The size that plain data would have when encoded, computed without encoding it."""

from __future__ import annotations

TOO_LARGE, TOO_DEEP = "too large", "nested too deep"
_DEEP = -1 << 62


def excess(value: object, *, size: int, depth: int) -> str:
    """Return why plain data is refused ("" if it is not): larger than about `size` bytes, or deeper than `depth`.

    O(size), whatever refers to itself, or again and again to the same; an encoder would take all the memory there is.
    """
    left = _left(value, size, depth)
    return "" if left >= 0 else TOO_LARGE if left > _DEEP else TOO_DEEP


def _left(value: object, left: int, depth: int) -> int:
    """Return how many of `left` bytes remain after a value: negative if it is too large, _DEEP if too deep."""
    if isinstance(value, str | bytes | bytearray):
        return left - 1 - len(value)
    left -= 1
    if isinstance(value, dict):
        if not depth:
            return _DEEP
        for key, item in value.items():
            left = left - 1 - len(key) if type(key) is str else _left(key, left, depth - 1)
            if left >= 0:
                left = left - 1 - len(item) if type(item) is str else _left(item, left, depth - 1)
            if left < 0:
                break
    elif isinstance(value, list | tuple | set | frozenset):
        if not depth:
            return _DEEP
        for item in value:
            left = _left(item, left, depth - 1)
            if left < 0:
                break
    return left
