"""Conversion of requests of the bus to URIs of a frontier, and of leases to requests of the spider feed."""

from __future__ import annotations

from hashlib import sha1

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import BadMessage, Request, UpdateScore
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.settings.schema import Seed

SCALE = 10_000
"""The priority of a URI with the score 1.0: scores are distinct to four digits."""
LONGEST_HOPS = 255

_stored = Codec("msgpack")


def seed_request(url: str, seed: Seed) -> Request:
    """Return the request for a seed of the settings."""
    meta = {
        request_meta.QUEUE: seed.queue or None,
        request_meta.PRIORITY: seed.priority or None,
        request_meta.SOURCE: seed.source,
    }
    return Request(url, meta={key: value for key, value in meta.items() if value is not None})


def uri_of(update: UpdateScore) -> CrawlUri:
    """Return the URI that a score is about; its payload is all of the request that has no field there.

    A higher score is a higher priority, added to a seed's. Raises BadMessage for a wrong type of cost or queue.
    """
    request, meta = update.request, update.request.meta
    kept = request_meta.without(request)
    queue, cost, via = (kept.pop(key, None) for key in (request_meta.QUEUE, request_meta.COST, request_meta.VIA))
    if not isinstance(queue, str | None):
        raise BadMessage(f"queue: expected text, not {type(queue).__name__}")
    if cost is not None and (type(cost) is not int or not 0 <= cost < 1 << 63):
        raise BadMessage("cost: expected a whole number of 0 or more, in 63 bits")
    body = kept.pop(request_meta.BODY, b"")
    if not isinstance(body, bytes):
        raise BadMessage(f"body: expected bytes, not {type(body).__name__}")
    added = request_meta.get(kept, request_meta.PRIORITY, int)
    source = request_meta.get(kept, request_meta.SOURCE, str)
    for key, known in (
        (request_meta.JOB, True),
        (request_meta.FORCE, True),
        (request_meta.PRIORITY, added is not None),  # values of other types are the sender's own
        (request_meta.SOURCE, source is not None),
    ):
        if known:
            kept.pop(key, None)
    payload = None
    if kept or request.headers or request.cookies:
        payload = _stored.encode(Request("", b"", request.headers, request.cookies, kept))
    return CrawlUri(
        request.url,
        method=request.method.decode("ascii", "replace"),
        body=body,
        priority=round(min(max(update.score, -1.0), 1.0) * SCALE) + (added or 0),
        via=via if isinstance(via, str) else None,
        source=source,
        hops="L" * min(request_meta.depth_of(meta), LONGEST_HOPS),
        queue=queue,
        cost=cost,
        force=meta.get(request_meta.FORCE) is True,
        payload=payload,
    )


def request_of(lease: Lease, frontier: bytes, job: int) -> Request:
    """Return the request of a lease of a frontier, for the spider feed.

    Raises BadMessage if the payload of its URI is no request of a bus.
    """
    uri = lease.uri
    stored = Request(uri.url) if uri.payload is None else _stored.decode_request(uri.payload)
    meta = {
        request_meta.FINGERPRINT: sha1(uri.url.encode(), usedforsecurity=False).hexdigest().encode(),
        **stored.meta,
        **({request_meta.BODY: uri.body} if uri.body else {}),
        **({} if uri.source is None else {request_meta.SOURCE: uri.source}),
        request_meta.JOB: job,
        request_meta.FRONTIER: frontier,
        request_meta.LEASE: lease.id,
        request_meta.EXPIRES: lease.expires,
    }
    return Request(uri.url, uri.method.encode(), stored.headers, stored.cookies, meta)
