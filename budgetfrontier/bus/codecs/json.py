"""The JSON form of Frontera 0.8.1: every value is a pair of its type and itself, so that bytes differ from text.

Bytes that are not UTF-8, which Frontera cannot send, have the type "base64", which its decoder reads as text.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from budgetfrontier.bus.messages import BadMessage, Request, Response, check_plain


class Encoder:
    """Encodes messages as JSON; a body is sent only with `send_body`."""

    def __init__(self, request_model: type[Request], *, send_body: bool = False) -> None:
        self._send_body = send_body

    def encode_page_crawled(self, response: Response) -> bytes:
        """Return a map of `type` and `r`: url, status_code, meta, body (base64). There are no headers in it."""
        body = b64encode(response.body) if self._send_body and response.body is not None else None
        fields = {"url": response.url, "status_code": response.status_code, "meta": response.meta, "body": body}
        return _dumped({"type": "page_crawled", "r": fields})

    def encode_links_extracted(self, request: Request, links: Iterable[Request]) -> bytes:
        """Return a map of `type`, `r` and `links`."""
        return _dumped({"type": "links_extracted", "r": _fields(request), "links": [_fields(link) for link in links]})

    def encode_request_error(self, request: Request, error: str) -> bytes:
        """Return a map of `type`, `r` and `error`."""
        return _dumped({"type": "request_error", "r": _fields(request), "error": error})

    def encode_update_score(self, request: Request, score: float, schedule: bool) -> bytes:
        """Return a map of `type`, `r`, `score` and `schedule`."""
        return _dumped({"type": "update_score", "r": _fields(request), "score": score, "schedule": schedule})

    def encode_offset(self, partition: int, offset: int) -> bytes:
        """Return a map of `type`, `partition_id` and `offset`."""
        return _dumped({"type": "offset", "partition_id": partition, "offset": offset})

    def encode_new_job_id(self, job_id: int) -> bytes:
        """Return a map of `type` and `job_id`."""
        return _dumped({"type": "new_job_id", "job_id": job_id})

    def encode_add_seeds(self, seeds: Iterable[Request]) -> bytes:
        """Return a map of `type` and `seeds`, which Frontera has no form for."""
        return _dumped({"type": "add_seeds", "seeds": [_fields(seed) for seed in seeds]})

    def encode_stats(self, stats: dict[Any, Any]) -> bytes:
        """Return a map of `type` and `stats`."""
        return _dumped({"type": "stats", "stats": stats})

    def encode_request(self, request: Request) -> bytes:
        """Return a map of url, method, headers, cookies and meta."""
        return _dumped(_fields(request))


class Decoder:
    """Decodes messages of `Encoder` or Frontera into objects of the models."""

    def __init__(self, request_model: type[Request], response_model: type[Response]) -> None:
        self._request_model, self._response_model = request_model, response_model

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Return the name of the message's type and its fields. Raises BadMessage."""
        match _loaded(data):
            case {"type": "page_crawled", "r": {"url": url, "status_code": status, "meta": meta, "body": body}}:
                body = None if body is None else b64decode(body, validate=True)
                request = self._request_model(url=url, meta=meta)
                return "page_crawled", self._response_model(url, status, None, body, request)  # type: ignore[arg-type]
            case {"type": "links_extracted", "r": request, "links": [*links]}:
                return "links_extracted", self._request(request), [self._request(link) for link in links]
            case {"type": "request_error", "r": request, "error": error}:
                return "request_error", self._request(request), error
            case {"type": "update_score", "r": request, "score": score, "schedule": schedule}:
                return "update_score", self._request(request), score, schedule
            case {"type": "offset", "partition_id": partition, "offset": offset}:
                return "offset", partition, offset
            case {"type": "new_job_id", "job_id": job_id}:
                return "new_job_id", job_id
            case {"type": "add_seeds", "seeds": [*seeds]}:
                return "add_seeds", [self._request(seed) for seed in seeds]
            case {"type": "stats", "stats": stats}:
                return "stats", stats
            case other:
                raise BadMessage(f"json: no message of a known type: {other!r:.100}")

    def decode_request(self, data: bytes) -> Request:
        """Return a request. Raises BadMessage."""
        return self._request(_loaded(data))

    def _request(self, fields: object) -> Request:
        match fields:
            case {"url": url, "method": method, "headers": headers, "cookies": cookies, "meta": meta}:
                return self._request_model(url=url, method=method, headers=headers, cookies=cookies, meta=meta)
        raise BadMessage(f"json: expected a request, not {fields!r:.100}")


def _fields(request: Request) -> dict[str, Any]:
    return {
        "url": request.url,
        "method": request.method,
        "headers": request.headers,
        "cookies": request.cookies,
        "meta": request.meta,
    }


def _dumped(message: dict[str, Any]) -> bytes:
    check_plain(message)
    return json.dumps(_typed(message)).encode()


def _loaded(data: bytes) -> Any:
    message = _untyped(json.loads(data))
    check_plain(message)
    return message


def _typed(value: Any) -> tuple[str, Any]:
    if isinstance(value, bytes):
        try:
            return "bytes", value.decode()
        except UnicodeDecodeError:
            return "base64", b64encode(value).decode()
    if isinstance(value, Mapping):
        return "dict", [(_typed(key), _typed(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return "list" if isinstance(value, list) else "tuple", [_typed(item) for item in value]
    return "other", value


def _untyped(pair: Any) -> Any:
    """Return the value in a pair of its type and itself. Raises BadMessage."""
    match pair:
        case ["bytes", str(text)]:
            return text.encode()
        case ["base64", str(text)]:
            return b64decode(text, validate=True)
        case ["dict", [*pairs]]:
            return {_untyped(key): _untyped(value) for key, value in pairs}
        case ["list", [*items]]:
            return [_untyped(item) for item in items]
        case ["tuple", [*items]]:
            return tuple(_untyped(item) for item in items)
        case ["other", None | bool() | int() | float() | str() as value]:
            return value
    raise BadMessage(f"json: expected a pair of a type and a value, not {pair!r:.100}")
