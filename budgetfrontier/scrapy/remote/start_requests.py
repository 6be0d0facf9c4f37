"""The identity of start requests: all processes of a spider make the same ones, and each is to be made once by all.

A process may make several for one URL on purpose: with other callbacks or arguments, or the same one several times.
Therefore a request is the same one in two processes if all its fields are equal, and as many equal ones have come
before it in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

_SIZE = 16  # bytes of a digest
_SCALARS = frozenset((bytes, int, float, bool, type(None)))
_NAMED = (type, FunctionType, BuiltinFunctionType)


class StartRequests:
    """The start requests of one process since it began, counted by their digests: about 90 bytes for each."""

    def __init__(self) -> None:
        self._made: dict[int, int] = {}

    def identity(self, request: Any, *, storable: bool) -> str:
        """Count a request, and return its identity. That of a restarted process, which counts anew, is the same.

        Objects in a request that is not `storable` are told apart by their types alone: they may hold anything.
        """
        digest = request_digest(request, with_objects=storable)
        short = int.from_bytes(digest[:8], "big")  # if two digests have the same, one counts as a repetition
        ordinal = self._made.get(short, 0)
        self._made[short] = ordinal + 1
        return _hash("identity", digest, str(ordinal).encode()).hex()


def request_digest(request: Any, *, with_objects: bool = True) -> bytes:
    """Return a digest of the fields of a request, which does not depend on the process, or the order of sets and dicts.

    O(size); some 40 us for a usual request.
    """
    digests = _Digests(with_objects)
    try:
        values = ((name, getattr(request, name)) for name in request.attributes)
        fields = [_hash(name, digests.of(value)) for name, value in values if value]
    except RecursionError:  # nested too deeply: told apart by the URL
        fields = [digests.of(request.url)]
    return _hash("request", type(request).__qualname__.encode(), *fields)


class _Digests:
    """Digests of the values in one request; each object is looked at once, so that cycles end."""

    def __init__(self, with_objects: bool) -> None:
        self._with_objects = with_objects
        self._known: dict[int, tuple[Any, bytes]] = {}
        """By id: the object, which has to live as long as its id is used, and its digest."""

    def of(self, value: Any) -> bytes:
        """Return the digest of a value. Raises RecursionError."""
        kind = type(value)
        if kind in _SCALARS:
            return _hash(kind.__name__, repr(value).encode())
        if isinstance(value, str):  # that of a link is a str of lxml's, and becomes a plain one
            return _hash("str", str.encode(value, "utf-8", "surrogatepass"))
        if isinstance(value, MethodType):
            return _hash("method", value.__qualname__.encode())
        if isinstance(value, _NAMED):
            return _hash("name", f"{value.__module__}.{value.__qualname__}".encode())
        known = self._known.get(id(value))
        if known is None:
            self._known[id(value)] = value, _hash("cycle")
            self._known[id(value)] = known = value, self._of_object(value)
        return known[1]

    def _of_object(self, value: Any) -> bytes:
        kind = type(value).__qualname__
        if isinstance(value, Mapping):
            return _hash(kind, *sorted(self.of(key) + self.of(each) for key, each in value.items()))
        if isinstance(value, (set, frozenset)):
            return _hash(kind, *sorted(map(self.of, value)))
        if isinstance(value, (list, tuple)):
            return _hash(kind, *map(self.of, value))
        return _hash(kind, *map(self.of, self._parts(value)))

    def _parts(self, value: Any) -> list[Any]:
        """Return what pickle would store of an object; nothing of one that cannot be pickled."""
        if not self._with_objects:
            return []
        try:
            reduced = value.__reduce_ex__(4)
            parts = reduced if isinstance(reduced, tuple) else (reduced,)
            return [list(part) if isinstance(part, Iterator) else part for part in parts]
        except RecursionError:
            raise
        except Exception:  # code of the object
            return []


def _hash(kind: str, *parts: bytes) -> bytes:
    """Return a digest of the parts. Where there are several, all but the first are of one size."""
    digest = blake2b(kind.encode(), digest_size=_SIZE, person=b"bf-start")
    digest.update(b"\0")
    for part in parts:
        digest.update(part)
    return digest.digest()
