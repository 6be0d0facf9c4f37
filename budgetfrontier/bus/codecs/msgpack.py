"""The MessagePack form of Frontera 0.8.1: lists with a short tag; fields that follow the known ones are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from budgetfrontier.bus.messages import BadMessage, Request, Response, check_types


class Encoder:
    """Encodes messages as MessagePack; a body is sent only with `send_body`."""

    def __init__(self, request_model: type[Request], *, send_body: bool = False) -> None:
        self._send_body = send_body

    def encode_page_crawled(self, response: Response) -> bytes:
        """Return ["pc", [url, status, meta, headers, body]]."""
        body = response.body if self._send_body else None
        return _pack([b"pc", [response.url, response.status_code, response.meta, response.headers, body]])

    def encode_links_extracted(self, request: Request, links: Iterable[Request]) -> bytes:
        """Return ["le", request, [request, ...]]."""
        return _pack([b"le", _fields(request), [_fields(link) for link in links]])

    def encode_request_error(self, request: Request, error: str) -> bytes:
        """Return ["re", request, error]."""
        return _pack([b"re", _fields(request), error])

    def encode_update_score(self, request: Request, score: float, schedule: bool) -> bytes:
        return _pack([b"us", _fields(request), score, schedule])

    def encode_offset(self, partition: int, offset: int) -> bytes:
        return _pack([b"of", partition, offset])

    def encode_new_job_id(self, job_id: int) -> bytes:
        """Return ["njid", job]."""
        return _pack([b"njid", job_id])

    def encode_add_seeds(self, seeds: Iterable[Request]) -> bytes:
        """Return ["as", [request, ...]], which Frontera has no form for."""
        return _pack([b"as", [_fields(seed) for seed in seeds]])

    def encode_stats(self, stats: dict[Any, Any]) -> bytes:
        """Return ["st", map]."""
        return _pack([b"st", stats])

    def encode_request(self, request: Request) -> bytes:
        """Return [url, method, headers, cookies, meta]."""
        return _pack(_fields(request))


class Decoder:
    """Decodes messages of `Encoder` or Frontera into objects of the models."""

    def __init__(self, request_model: type[Request], response_model: type[Response]) -> None:
        self._request_model, self._response_model = request_model, response_model

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Return the name of the message's type and its fields. Raises BadMessage."""
        match _unpack(data):
            case [b"pc", [url, status, meta, headers, body, *_], *_]:
                request = self._request_model(url=url, meta=meta)
                return "page_crawled", self._response_model(url, status, headers, body, request)
            case [b"le", request, [*links], *_]:
                return "links_extracted", self._request(request), [self._request(link) for link in links]
            case [b"re", request, error, *_]:
                return "request_error", self._request(request), error
            case [b"us", request, score, schedule, *_]:
                return "update_score", self._request(request), score, schedule
            case [b"of", partition, offset, *_]:
                return "offset", partition, offset
            case [b"njid", job_id, *_]:
                return "new_job_id", job_id
            case [b"as", [*seeds], *_]:
                return "add_seeds", [self._request(seed) for seed in seeds]
            case [b"st", stats, *_]:
                return "stats", stats
            case other:
                raise BadMessage(f"msgpack: no message of a known type: {other!r:.100}")

    def decode_request(self, data: bytes) -> Request:
        """Return a request. Raises BadMessage."""
        return self._request(_unpack(data))

    def _request(self, fields: Any) -> Request:
        match fields:
            case [url, method, headers, cookies, meta, *_]:
                return self._request_model(url=url, method=method, headers=headers, cookies=cookies, meta=meta)
        raise BadMessage(f"msgpack: expected a request of five fields, not {fields!r:.100}")


def _fields(request: Request) -> list[Any]:
    return [request.url, request.method, request.headers, request.cookies, request.meta]


def _pack(message: list[Any]) -> bytes:
    check_types(message)
    return msgspec.msgpack.encode(message)


def _unpack(data: bytes) -> Any:
    message = msgspec.msgpack.decode(data)
    check_types(message)
    return message
