"""Checks of callers' values: a URI that could not be stored and read back is INVALID, and poisons no batch."""

from __future__ import annotations

from types import UnionType
from typing import Final

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.data_size import TOO_LARGE, excess
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import queue_keys
from budgetfrontier.storage.uri_values import decode_uri, encode_uri

MAX_RECORD = 1 << 20  # bytes of one URI with all it carries
MAX_DEPTH = 100  # of `meta`: later versions with a deeper stack must be able to read it
_BYTES = (bytes, bytearray, memoryview)
_TYPES: Final[dict[str, tuple[type | UnionType, str]]] = {
    "method": (str, "text"),
    "hops": (str, "text"),
    "via": (str | None, "text"),
    "source": (str | None, "text"),
    "queue": (str | None, "text"),
    "body": (bytes | bytearray | memoryview, "bytes"),
    "force": (bool, "True or False"),
    "priority": (int, "a whole number"),
    "cost": (int | None, "a whole number"),
    "precedence": (int | None, "a whole number"),
    "directive": (int, "a Directive"),
    "payload": (bytes | bytearray | memoryview | None, "bytes"),
    "headers": (dict | None, "a dict of text"),
}
"""The type of each field of a URI, also in words."""
MAX_TIME = 1e300  # epoch seconds; not_before may be a whole number that no float can hold


def check_key(key: object) -> str:
    """Return the key of a queue, from a caller or a policy. Raises InvalidUrl."""
    if isinstance(key, str) and queue_keys.queue_key_bytes(key) is not None:
        return key if type(key) is str else str.__str__(key)
    raise InvalidUrl("queue", f"a queue key is text of 1 to {queue_keys.MAX_QUEUE_KEY} bytes")


def check_fields(uri: CrawlUri) -> None:
    """Raise InvalidUrl for a URI that cannot be stored, before a policy gets it: it must not affect its batch."""
    method: object = uri.method
    hops: object = uri.hops
    via: object = "" if uri.via is None else uri.via
    force: object = uri.force
    body: object = uri.body
    queue: object = "" if uri.queue is None else uri.queue
    source: object = "" if uri.source is None else uri.source
    texts = isinstance(method, str) and isinstance(hops, str) and isinstance(via, str)
    texts = texts and isinstance(queue, str) and isinstance(source, str)
    if not (texts and isinstance(force, bool) and isinstance(body, _BYTES)):
        raise _wrong_type(uri)
    priority: object = uri.priority
    cost: object = 0 if uri.cost is None else uri.cost
    precedence: object = 0 if uri.precedence is None else uri.precedence
    directive: object = uri.directive
    whole = isinstance(priority, int) and isinstance(cost, int) and isinstance(precedence, int)
    if not (whole and isinstance(directive, int) and 0 <= directive <= 3):
        raise _wrong_type(uri)
    when: object = uri.not_before
    if when is not None and not (isinstance(when, int | float) and abs(when) <= MAX_TIME):
        raise InvalidUrl("not_before", "not_before is a time in epoch seconds")
    for name, value in ("meta", uri.meta), ("headers", uri.headers):
        if value is not None and (why := excess(value, size=MAX_RECORD, depth=MAX_DEPTH)):
            raise InvalidUrl("too-large" if why == TOO_LARGE else name, f"{name}: {why}")


def _wrong_type(uri: CrawlUri, why: str = "cannot be stored") -> InvalidUrl:
    """Return the error for a URI with a field of a wrong type; its reason names the field, "type" if none is found."""
    for name, (expected, words) in _TYPES.items():
        value = getattr(uri, name)
        if not isinstance(value, expected):
            return InvalidUrl(name, f"{name} is {words}")
    if not 0 <= uri.directive <= 3:
        return InvalidUrl("directive", "directive is a Directive")
    if not all(isinstance(text, str) for header in (uri.headers or {}).items() for text in header):
        return InvalidUrl("headers", "headers is a dict of text")
    try:
        msgspec.msgpack.encode(uri.meta)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return InvalidUrl("meta", why)
    return InvalidUrl("type", why)


def encoded(uri: CrawlUri, url: str, queue: str) -> bytes:
    """Return the value of a URI under its normalized `url`. Raises InvalidUrl if it could not be read back."""
    try:
        value = encode_uri(uri, url, queue)
        decode_uri(value, queue)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise _wrong_type(uri, f"cannot be stored: {e}") from None
    if len(value) > MAX_RECORD:
        raise InvalidUrl("too-large", f"{len(value)} bytes with all it carries; at most {MAX_RECORD}")
    return value
