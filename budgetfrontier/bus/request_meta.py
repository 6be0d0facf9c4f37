"""The keys that workers and spiders of this project put into the `meta` of requests: bytes, as Frontera's are.

Our spiders, and Frontera's, return the meta of a request with its result; wrong types count as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from budgetfrontier.bus.messages import Request

JOB = b"jid"
"""The number of the job, as in Frontera: messages of earlier jobs are ignored."""
LEASE = b"lease"
"""The id of the lease under which a request of the feed is fetched."""
FRONTIER = b"frontier"
"""The frontier that has given the lease: each has ids of its own."""
EXPIRES = b"expires"
"""When that lease expires, in epoch seconds."""
FETCH_SECONDS = b"fetch_seconds"
"""The duration of the fetch, for the politeness delay."""
RETRY_AFTER = b"retry_after"
"""The seconds of the Retry-After of a 429 or 503."""
SIZE = b"size"
"""The size of the response in bytes."""
NOVEL = b"novel"
"""Whether the payload of the response is new."""
DIGEST = b"digest"
"""A hash of the content of the response."""
ADDRESS = b"address"
"""The IP address that the response came from."""
DEPTH = b"depth"
"""The number of links between a seed and the request."""
VIA = b"via"
"""The URL of the page that the request was found on."""
COST, QUEUE, FORCE = b"cost", b"queue", b"force"
"""The fields of the same names of a CrawlUri."""
PRIORITY = b"priority"
"""A number that is added to the priority that the score of a request gives, as seeds have it in YAML."""
SOURCE = b"source"
"""The label of the seed that a request comes from."""
BODY = b"body"
"""The body of the request, which has no field on the bus."""
FINGERPRINT = b"fingerprint"
"""The SHA-1 of the URL, in hexadecimal digits, as Frontera's spiders and strategies know it."""
SCRAPY = b"scrapy"
"""A request of Scrapy, serialized and sealed by the process that made it."""

OF_A_LEASE = frozenset((LEASE, FRONTIER, EXPIRES, FETCH_SECONDS, RETRY_AFTER, SIZE, NOVEL, DIGEST, ADDRESS))
"""The keys that mean one lease alone, and are removed from a request that is stored."""

T = TypeVar("T")


def get(meta: Mapping[Any, Any], key: bytes, kind: type[T]) -> T | None:
    """Return the value of a key, None if it is not there, or is not of a type.

    True and False are no numbers, nor are integers of more than 64 bits, which a codec of one's own may have.
    """
    value = meta.get(key)
    if type(value) is int:
        if not -(1 << 63) <= value < 1 << 64:
            return None
        value = float(value) if kind is float else value
    return value if type(value) is kind else None


def without(request: Request, keys: frozenset[bytes] = OF_A_LEASE) -> dict[Any, Any]:
    """Return the meta of a request without some keys."""
    return {key: value for key, value in request.meta.items() if key not in keys}


def lease_of(meta: Mapping[Any, Any]) -> tuple[bytes, int] | None:
    """Return the frontier and the id of the lease of a request; None if it has none."""
    frontier, lease = get(meta, FRONTIER, bytes), get(meta, LEASE, int)
    return None if frontier is None or lease is None else (frontier, lease)


def job_of(meta: Mapping[Any, Any]) -> int:
    """Return the number of the job that a request belongs to; 0 if it does not say."""
    return get(meta, JOB, int) or 0


def depth_of(meta: Mapping[Any, Any]) -> int:
    """Return the number of links between a seed and a request; 0 if it does not say."""
    return max(0, get(meta, DEPTH, int) or 0)
