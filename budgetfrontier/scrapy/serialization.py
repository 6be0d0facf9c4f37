"""Serialization of requests: as the frontier stores them, and back.

A stored request is sealed: in front of it stands a hash under a key that only this job has (BLAKE2b, 16 bytes), so that
nothing is unpickled, no class is looked up and no callback is named but what this job itself has written. Plain data is
msgpack; a request that carries more than that, such as an item, is pickled, as Scrapy's own disk queues do.
"""

from __future__ import annotations

import hmac
import pickle
from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from typing import Any

import msgspec
from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from budgetfrontier.model import CrawlUri

LARGEST = 900 << 10  # bytes; the engine takes 1 MiB, with all else that a URI carries

_SEAL = 16
_PLAIN, _PICKLED, _HELD = b"m", b"p", b"h"
_SCALARS = frozenset((str, bytes, int, float, bool, type(None)))
_KEYS = frozenset((str, bytes))
_ELSEWHERE = ("url", "method", "body")  # fields that the CrawlUri itself has
_IMPORTED = ("callback", "errback", "cb_kwargs", "flags", "cookies", "encoding")
_FIELDS = ("callback", "errback", "cookies", "meta", "cb_kwargs", "priority", "dont_filter", "flags")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Lost(ValueError):
    """A stored request cannot be made again; the message says why."""


class Serializer:
    """Makes payloads of requests, and requests of payloads, for one spider.

    With `durable` False nothing outlives the process: then whatever could be told from a copy stays the object it is,
    as in Scrapy's memory queues.
    """

    def __init__(self, spider: Any, *, key: bytes, durable: bool) -> None:
        self._spider, self._key, self._durable = spider, key, durable
        self._held: dict[bytes, Request] = {}
        self._numbers = count(1)

    @property
    def held(self) -> int:
        """How many requests are kept as objects."""
        return len(self._held)

    def store(self, request: Request, url: str) -> tuple[bytes, str]:
        """Return the payload of a request, and why it had to be held in memory ("": it did not have to).

        `url` is how the frontier writes its URL. O(size); about 10 us for a usual request.
        """
        if not self._durable and not _is_copyable(request):
            return self._hold(request), ""
        try:
            payload = self._pack(request, url)
            if len(payload) <= LARGEST:
                return payload, ""
            why = f"it takes {len(payload)} bytes, and {LARGEST} are the most"
        except Exception as e:  # pickling runs the code of whatever is in meta
            why = f"{type(e).__name__}: {e}"
        return self._hold(request), why

    def forget(self, payload: bytes) -> None:
        """The request of this payload was not admitted."""
        if self._held:
            self._held.pop(payload[_SEAL:], None)

    def load(self, uri: CrawlUri) -> Request:
        """Return the request of a URI; one that came from outside says what it is in plain data. Raises Lost."""
        payload, method = uri.payload, uri.method.removeprefix(START)
        if payload is None:
            return self._imported(uri)
        data = payload[_SEAL:]
        if not hmac.compare_digest(payload[:_SEAL], self._seal(data)):
            raise Lost("its payload was not written by this job")
        form = data[:1]
        if form == _HELD:
            held = self._held.pop(data, None)
            if held is None:
                raise Lost("it could not be stored, and was in the memory of a process that has ended")
            return held
        try:
            fields = (_decode if form == _PLAIN else pickle.loads)(data[1:])
            fields = {"url": uri.url, "method": method, "body": uri.body, **fields}
            return request_from_dict(fields, spider=self._spider)
        except Exception as e:  # a callback or a class that is no more, or whatever unpickling runs
            raise Lost(f"it cannot be made again: {type(e).__name__}: {e}") from e

    def _imported(self, uri: CrawlUri) -> Request:
        """A request that this job did not write. It may name callbacks, but only methods that the spider itself has."""
        meta = dict(uri.meta) if isinstance(uri.meta, dict) else {}
        own = meta.pop("scrapy", None)
        try:
            fields = {name: own[name] for name in _IMPORTED if name in own} if isinstance(own, dict) else {}
            for name in ("callback", "errback"):
                method = fields.get(name) or "parse"
                if method != "parse" and (method.startswith("_") or hasattr(Spider, method)):
                    raise ValueError(f"{method!r} is no callback")
            fields |= {"url": uri.url, "method": uri.method, "body": uri.body, "headers": uri.headers, "meta": meta}
            fields |= {"priority": uri.priority, "dont_filter": uri.force}
            _restore_kinds(fields, own.get("kinds") if isinstance(own, dict) else None)
            return request_from_dict(fields, spider=self._spider)
        except Exception as e:
            raise Lost(f"it cannot be made of what was imported: {type(e).__name__}: {e}") from e

    def _pack(self, request: Request, url: str) -> bytes:
        fields = self._fields(request)
        if request.url != url:
            fields["url"] = request.url
        try:
            data = _PLAIN + _encode(fields) if _is_plain(fields) else None
        except (ValueError, TypeError, RecursionError):  # half a surrogate pair, for one
            data = None
        if data is None:
            data = _PICKLED + pickle.dumps(fields, protocol=5)
        return self._seal(data) + data

    def _fields(self, request: Request) -> dict[str, Any]:
        """What `to_dict` says, without what a new request has by itself. Raises ValueError for a nameless callback."""
        if type(request) is not Request:
            fields = request.to_dict(spider=self._spider)
            return {name: value for name, value in fields.items() if name not in _ELSEWHERE}
        fields = {name: value for name in _FIELDS if (value := getattr(request, name))}
        for name in ("callback", "errback"):
            function = fields.get(name)
            if callable(function):  # asked first: `to_dict` looks through all that the spider has, each time
                known = getattr(function, "__name__", "")
                same = known and getattr(self._spider, known, None) == function
                fields[name] = known if same else request.to_dict(spider=self._spider)[name]
        if request.headers:
            fields["headers"] = dict(request.headers)
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        return fields

    def _hold(self, request: Request) -> bytes:
        data = _HELD + next(self._numbers).to_bytes(8, "big")
        self._held[data] = request
        return self._seal(data) + data

    def _seal(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=_SEAL, key=self._key).digest()


_KINDS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def _restore_kinds(fields: dict[str, Any], kinds: Any) -> None:
    """Make tuples and sets again of the lists that `import` made of them; the inner ones come last in `kinds`."""
    for kind, *path, last in reversed(kinds or ()):
        place: Any = fields
        for step in path:
            place = place[step]
        place[last] = _KINDS[kind](place[last])


START = "START "
"""What the method of a start request begins with in the frontier, where start requests are told from all others."""


def _is_copyable(request: Request) -> bool:
    """Whether nobody can tell a request from its copy: no subclass, and nothing in it that could be changed."""
    if type(request) is not Request:
        return False
    return not any(type(value) not in _SCALARS for value in (*request.meta.values(), *request.cb_kwargs.values()))


def _is_plain(value: object) -> bool:
    """Whether msgpack gives back the very same."""
    kind = type(value)
    if kind in _SCALARS:
        return kind is not int or -(1 << 63) <= value < 1 << 64  # type: ignore[operator]
    if kind is list:
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    if kind is dict:
        return all(type(key) in _KEYS for key in value) and all(map(_is_plain, value.values()))  # type: ignore[attr-defined]
    return False
