"""Serialization of requests to payloads of the frontier, and back.

A payload is sealed (`seals`). The seal is checked first, so that nothing is unpickled, and no class or private callback
looked up by name, unless somebody with the key has written it. Plain data is msgpack; a request that carries more than
that, such as an item, is pickled, as in Scrapy's own disk queues.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest
from scrapy.spiders import CrawlSpider, SitemapSpider
from scrapy.utils.request import request_from_dict

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.scrapy.seals import RequestLost, Seal

MAX_STORED = 900 << 10  # bytes of a payload with its body; the engine accepts 1 MiB for all that a URI carries

_PLAIN, _PICKLED, _HELD = b"m", b"p", b"h"
_SCALARS = frozenset((str, bytes, int, float, bool, type(None)))
_KEYS = frozenset((str, bytes))
_IN_URI = ("url", "method", "body")  # stored in fields of the CrawlUri
_IMPORTED = ("callback", "errback", "cb_kwargs", "flags", "cookies", "encoding")
_FIELDS = ("callback", "errback", "cookies", "meta", "cb_kwargs", "priority", "dont_filter", "flags")

_OF_SPIDERS = ((CrawlSpider, "_callback"), (CrawlSpider, "_errback"), (SitemapSpider, "_parse_sitemap"))
"""Callbacks of Scrapy's own spiders, which choose among the rules of the spider."""
_CLASSES = tuple(f"{kind.__module__}.{kind.__name__}" for kind in (Request, FormRequest, JsonRequest, XmlRpcRequest))

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Serializer:
    """A converter of the requests of one spider to payloads and back.

    With `durable` False nothing outlives the process, and a request that differs from its copy is kept as an object,
    as in Scrapy's memory queues.
    """

    def __init__(self, spider: Any, *, seal: Seal, durable: bool) -> None:
        self._spider, self._seal, self._durable = spider, seal, durable
        self._held: dict[bytes, Request] = {}
        self._nonce = os.urandom(8)  # nobody else can name a request that is held
        self._numbers = count(1)

    @property
    def held(self) -> int:
        """The number of requests kept in memory as objects."""
        return len(self._held)

    def store(self, request: Request, url: str) -> tuple[bytes, str]:
        """Return the payload of a request, and the reason why the request had to be kept in memory ("" if not).

        `url` is the URL under which the frontier stores it. O(size); about 10 us for a usual request.
        """
        if not self._durable and not _is_copyable(request):
            return self._hold(request), ""
        try:
            payload = self._pack(request, url)
            size = len(payload) + len(request.body)
            if size <= MAX_STORED:
                return payload, ""
            reason = f"it takes {size} bytes, and {MAX_STORED} are the most"
        except Exception as e:  # pickling runs code of the objects in meta
            reason = f"{type(e).__name__}: {e}"
        return self._hold(request), reason if self._durable else ""

    def forget(self, payload: bytes) -> None:
        """Forget the request of a payload that was not admitted."""
        if self._held:
            self._held.pop(self._seal.content(payload), None)

    def load(self, uri: CrawlUri) -> Request:
        """Return the request of a URI; one without a payload was imported, and is made from plain data.

        Raises RequestLost.
        """
        payload, method = uri.payload, own_method(uri.method)
        if payload is None:
            return self._imported(uri)
        data = self._seal.opened(payload)
        form = data[:1]
        if form == _HELD:
            held = self._held.pop(data, None)
            if held is None:
                raise RequestLost("it could not be stored, and was in the memory of a process that has ended")
            return held
        if form != _PLAIN and not self._seal.trusted:
            raise RequestLost("it is pickled, and nothing shows who has written it")
        try:
            fields = (_decode if form == _PLAIN else pickle.loads)(data[1:])
            if not self._seal.trusted:
                self._check_names(fields)
            self._check_callbacks(fields)
            fields = {"url": uri.url, "method": method, "body": uri.body, **fields}
            return request_from_dict(fields, spider=self._spider)
        except RequestLost:
            raise
        except Exception as e:  # a class that no longer exists, or an error of code that unpickling runs
            raise RequestLost(f"it cannot be made again: {type(e).__name__}: {e}") from e

    def _imported(self, uri: CrawlUri) -> Request:
        """Return a request that this job did not write.

        Its callbacks must be public methods of the spider's own class.
        """
        meta = dict(uri.meta) if isinstance(uri.meta, dict) else {}
        own = meta.pop("scrapy", None)
        try:
            fields = {name: own[name] for name in _IMPORTED if name in own} if isinstance(own, dict) else {}
            self._check_names(fields)
            self._check_callbacks(fields)
            fields |= {"url": uri.url, "method": uri.method, "body": uri.body, "headers": uri.headers, "meta": meta}
            fields |= {"priority": uri.priority, "dont_filter": uri.force}
            _restore_kinds(fields, own.get("kinds") if isinstance(own, dict) else None)
            return request_from_dict(fields, spider=self._spider)
        except RequestLost:
            raise
        except Exception as e:
            raise RequestLost(f"it cannot be made of what was imported: {type(e).__name__}: {e}") from e

    def _check_callbacks(self, fields: dict[str, Any]) -> None:
        """Raise RequestLost for a callback that the spider does not have."""
        for field in ("callback", "errback"):
            name = fields.get(field)
            if isinstance(name, str) and not hasattr(self._spider, name):
                raise RequestLost(
                    f"the spider {getattr(self._spider, 'name', '')!r} has no method {name!r}: its code has changed, "
                    "or another spider uses the same crawl"
                )

    def _check_names(self, fields: dict[str, Any]) -> None:
        """Raise ValueError unless the names in a request, which anybody may have written, can do no harm."""
        for field in ("callback", "errback"):
            method = fields.get(field) or "parse"
            if method == "parse" or any(isinstance(self._spider, kind) and method == own for kind, own in _OF_SPIDERS):
                continue
            if method.startswith("_") or hasattr(Spider, method):
                raise ValueError(f"{method!r} is not a public callback")
        if fields.get("_class", _CLASSES[0]) not in _CLASSES:
            raise ValueError(f"{fields['_class']!r} is no class of Scrapy's requests")

    def _pack(self, request: Request, url: str) -> bytes:
        fields = self._fields(request)
        if request.url != url:
            fields["url"] = request.url
        try:
            if not self._seal.trusted:
                fields = _with_plain_text(fields)  # the text of a link, for example, is a str of lxml's
            data = _PLAIN + _encode(fields) if _is_plain(fields) else None
        except (ValueError, TypeError, RecursionError):  # a lone surrogate, for example
            data = None
        if not self._seal.trusted:
            if data is None:
                what = _not_plain(fields)
                raise ValueError(f"it has more than plain data ({what}), which needs BUDGETFRONTIER_KEY to be shared")
            self._check_names(fields)
        if data is None:
            data = _PICKLED + pickle.dumps(fields, protocol=5)
        return self._seal.sealed(data)

    def _fields(self, request: Request) -> dict[str, Any]:
        """Return the fields that differ from those of a new request.

        Raises ValueError for a callback without a name.
        """
        if type(request) is not Request:
            fields = request.to_dict(spider=self._spider)
            return {name: value for name, value in fields.items() if name not in _IN_URI}
        fields = {name: value for name in _FIELDS if (value := getattr(request, name))}
        for name in ("callback", "errback"):
            function = fields.get(name)
            if callable(function):  # compared here first: `to_dict` walks over all members of the spider each time
                known = getattr(function, "__name__", "")
                same = known and getattr(self._spider, known, None) == function
                fields[name] = known if same else request.to_dict(spider=self._spider)[name]
        if request.headers:
            fields["headers"] = dict(request.headers)
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        return fields

    def _hold(self, request: Request) -> bytes:
        data = _HELD + self._nonce + next(self._numbers).to_bytes(8, "big")
        self._held[data] = request
        return self._seal.sealed(data)


_CONTAINER_TYPES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def is_stored(data: bytes) -> bool:
    """Return whether data have the form of stored requests, by any writer. Unpickles nothing."""
    form, content = data[:1], data[1:]
    if form == _PLAIN:
        try:
            return isinstance(_decode(content), dict)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return False
    return (form == _PICKLED and content[:1] == pickle.PROTO and content[-1:] == pickle.STOP) or (
        form == _HELD and len(content) == 2 * 8
    )


def _restore_kinds(fields: dict[str, Any], kinds: Any) -> None:
    """Restore tuples and sets from the lists that `import` made of them; inner ones come last in `kinds`."""
    for kind, *path, last in reversed(kinds or ()):
        container: Any = fields
        for key in path:
            container = container[key]
        container[last] = _CONTAINER_TYPES[kind](container[last])


START = "START "
"""Prefix of the method of a start request in the frontier, which deduplicates start requests apart from all others."""


def start_method(method: str, identity: str = "") -> str:
    """Return the method of a start request in the frontier, with the identity that distinguishes it on its URL."""
    return f"{START}{identity} {method}" if identity else START + method


def own_method(method: str) -> str:
    """Return the method of a request from that in the frontier."""
    return method.rpartition(" ")[2] if method.startswith(START) else method


def _is_copyable(request: Request) -> bool:
    """Return whether a copy of a request is as good as the request: no subclass, and only immutable values in it."""
    if type(request) is not Request:
        return False
    return not any(type(value) not in _SCALARS for value in (*request.meta.values(), *request.cb_kwargs.values()))


def _with_plain_text(value: Any) -> Any:
    """Return a value with str in place of its subclasses."""
    if isinstance(value, str):
        return str.__str__(value)
    if type(value) is list:
        return [_with_plain_text(each) for each in value]
    if type(value) is dict:
        return {_with_plain_text(key): _with_plain_text(each) for key, each in value.items()}
    return value


def _not_plain(fields: dict[str, Any]) -> str:
    """Return the place and the type of the first value that is not plain, unless it is deep inside."""
    for name, value in fields.items():
        inner = value if type(value) is dict else {}
        for where, each in ((name, value), *((f"{name}[{key!r}]", each) for key, each in inner.items())):
            if type(each) not in (*_SCALARS, list, dict):
                return f"{where}: {type(each).__name__}"
    return "objects in a list or a dict, or text that is not Unicode"


def _is_plain(value: object) -> bool:
    """Return whether msgpack restores the same value, with the same types."""
    kind = type(value)
    if kind in _SCALARS:
        return kind is not int or -(1 << 63) <= value < 1 << 64  # type: ignore[operator]
    if kind is list:
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    if kind is dict:
        return all(type(key) in _KEYS for key in value) and all(map(_is_plain, value.values()))  # type: ignore[attr-defined]
    return False
