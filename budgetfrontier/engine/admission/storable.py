"""Checks of callers' values: a URI that could not be stored and read back is INVALID, and poisons no batch."""

from __future__ import annotations

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.data_size import TOO_LARGE, excess
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import queue_keys
from budgetfrontier.storage.uri_values import decode_uri, encode_uri

MAX_RECORD = 1 << 20  # bytes of one URI with all it carries
MAX_DEPTH = 100  # of `meta`: later versions with a deeper stack must be able to read it
_BYTES = (bytes, bytearray, memoryview)
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
        raise InvalidUrl("type", "method, hops, via, source and queue are text, body is bytes, and force is a bool")
    priority: object = uri.priority
    cost: object = 0 if uri.cost is None else uri.cost
    directive: object = uri.directive
    whole = isinstance(priority, int) and isinstance(cost, int)
    if not (whole and isinstance(directive, int) and 0 <= directive <= 3):
        raise InvalidUrl("type", "priority, directive and cost are whole numbers")
    when: object = uri.not_before
    if when is not None and not (isinstance(when, int | float) and abs(when) <= MAX_TIME):
        raise InvalidUrl("type", "not_before is a time in epoch seconds")
    for name, value in ("meta", uri.meta), ("headers", uri.headers):
        if value is not None and (why := excess(value, size=MAX_RECORD, depth=MAX_DEPTH)):
            raise InvalidUrl("too-large" if why == TOO_LARGE else "type", f"{name}: {why}")


def encoded(uri: CrawlUri, url: str, queue: str) -> bytes:
    """Return the value of a URI under its normalized `url`. Raises InvalidUrl if it could not be read back."""
    try:
        value = encode_uri(uri, url, queue)
        decode_uri(value, queue)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
        raise InvalidUrl("type", f"cannot be stored: {e}") from None
    if len(value) > MAX_RECORD:
        raise InvalidUrl("too-large", f"{len(value)} bytes with all it carries; at most {MAX_RECORD}")
    return value
