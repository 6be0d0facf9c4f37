"""Results of requests, shortened so that they can be sent: a page that is too large must still end its lease."""

from __future__ import annotations

import msgspec

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import BadMessage, Message, PageCrawled, Request, RequestError, Response

_LONGEST_ERROR = 1000
_KEPT = (
    request_meta.JOB,
    request_meta.LEASE,
    request_meta.FRONTIER,
    request_meta.EXPIRES,
    request_meta.FETCH_SECONDS,
    request_meta.RETRY_AFTER,
    request_meta.SIZE,
    request_meta.NOVEL,
    request_meta.ADDRESS,
    request_meta.DEPTH,
)
"""The keys with the outcome of a lease; they are short."""


def shortened(message: Message) -> Message | None:
    """Return a result without its body and headers, or without most of its meta; None if nothing can be left out."""
    match message:
        case PageCrawled(response) if response.body is not None or response.headers:
            request = response.request
            if request is not None and response.body is not None:
                meta = {request_meta.SIZE: len(response.body), **request.meta}
                request = msgspec.structs.replace(request, meta=meta)
            return PageCrawled(Response(response.url, response.status_code, request=request))
        case PageCrawled(response) if response.request is not None and _is_long(response.request):
            return PageCrawled(msgspec.structs.replace(response, request=_short(response.request)))
        case RequestError(request, error) if _is_long(request) or len(error) > _LONGEST_ERROR:
            return RequestError(_short(request), error[:_LONGEST_ERROR])
    return None


def encoded_short(message: Message, codec: Codec) -> bytes | None:
    """Return the bytes of a message that is too long as it is; None if it stays so."""
    shorter = shortened(message)
    while shorter is not None:
        try:
            return codec.encode(shorter)
        except BadMessage:
            shorter = shortened(shorter)
    return None


def shortened_bytes(data: bytes, codec: Codec) -> bytes | None:
    """Return a message that is too long for a stream in a shorter form; None if there is none."""
    try:
        return encoded_short(codec.decode(data), codec)
    except BadMessage:
        return None


def _is_long(request: Request) -> bool:
    return _short(request) != request


def _short(request: Request) -> Request:
    kept = {key: request.meta[key] for key in _KEPT if key in request.meta}
    return Request(request.url, request.method, meta=kept)
