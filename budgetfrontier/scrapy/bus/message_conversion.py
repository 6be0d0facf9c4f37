"""Conversion of requests of Scrapy to requests of the bus, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.messages import Request
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.scrapy.conversion import LABEL, QUEUE, address, crawl_uri
from budgetfrontier.scrapy.seals import RequestLost
from budgetfrontier.scrapy.serialization import Serializer

PAGE = "budgetfrontier_page"
"""Key in the meta of a request of the feed, and of its retries and redirects: its number in this process."""


class Unsendable(ValueError):
    """A request that stays with its process; the message says why."""


def bus_request(request: Any, serializer: Serializer, *, force: bool) -> Request:
    """Return the request for the bus. Raises InvalidUrl, InvalidMeta for a wrong cost or queue, and Unsendable."""
    url, _ = address(request.url)
    payload, reason = serializer.store(request, url)
    if reason:
        serializer.forget(payload)
        raise Unsendable(reason)
    queue = request.meta.get(QUEUE)
    uri = crawl_uri(request, url, queue=queue, payload=payload, priority=0, method=request.method)
    meta: dict[bytes, Any] = {request_meta.SCRAPY: payload}
    depth = request.meta.get("depth")
    if type(depth) is int:
        meta[request_meta.DEPTH] = depth
    for key, value in (
        (request_meta.COST, uri.cost),
        (request_meta.QUEUE, uri.queue),
        (request_meta.SOURCE, uri.source),
        (request_meta.BODY, uri.body or None),
        (request_meta.FORCE, force or None),
    ):
        if value is not None:
            meta[key] = value
    return Request(url, request.method.encode(), meta=meta)


def scrapy_request(request: Request, serializer: Serializer) -> Any:
    """Return the request of Scrapy. One that no spider has made goes to `parse`, or to a public callback that it names.

    Raises RequestLost.
    """
    method = request.method.decode("ascii", "replace")
    body = request_meta.get(request.meta, request_meta.BODY, bytes) or b""
    payload = request_meta.get(request.meta, request_meta.SCRAPY, bytes)
    meta: dict[str, Any] | None = None
    if payload is None:
        own: dict[str, Any] = {"cookies": request.cookies}
        own |= {name: value for name in ("callback", "errback") if (value := _name(request.meta, name))}
        carried = request.meta.get(b"scrapy_meta")
        meta = {str(key): value for key, value in carried.items()} if isinstance(carried, Mapping) else {}
        meta |= {"depth": request_meta.depth_of(request.meta), "scrapy": own}
        if (label := request_meta.get(request.meta, request_meta.SOURCE, str)) is not None:
            meta[LABEL] = label
    made = serializer.load(CrawlUri(request.url, method=method, body=body, payload=payload, meta=meta))
    if payload is None:
        try:
            made.headers.update(request.headers)
        except Exception as e:  # names and values may be anything that a codec can send
            raise RequestLost(f"its headers are none: {type(e).__name__}: {e}") from e
    return made


def _name(meta: Mapping[Any, Any], name: str) -> str | None:
    """Return the name of a callback, as Frontera carries it."""
    value = meta.get(f"scrapy_{name}".encode())
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else None
