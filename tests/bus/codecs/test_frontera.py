"""Messages of Frontera 0.8.1 itself: each is read, and written again with the same bytes."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import (
    LinksExtracted,
    Message,
    NewJobId,
    Offset,
    PageCrawled,
    Request,
    RequestError,
    Response,
    Stats,
    UpdateScore,
)
from tests.bus.frontera_messages import FILE, SAMPLES

WRITTEN: dict[str, dict[str, str]] = json.loads(FILE.read_text())
TYPES: dict[str, Callable[..., Message]] = {
    "links_extracted": LinksExtracted,
    "request_error": RequestError,
    "update_score": UpdateScore,
    "offset": Offset,
    "new_job_id": NewJobId,
    "stats": Stats,
}


def expected(form: str, name: str) -> Message | Request:
    """The message of a sample as its codec can carry it."""
    kind, *fields = SAMPLES[name]
    if kind == "request":
        return Request(**fields[0])
    if kind == "page_crawled":
        response, request = fields
        sent = Request(response["url"], meta=request["meta"])  # of the request, only the meta are sent
        headers = {} if form == "json" else response["headers"]
        return PageCrawled(Response(response["url"], response["status_code"], headers, response.get("body"), sent))
    return TYPES[kind](*map(as_requests, fields))


def as_requests(field: Any) -> Any:
    if isinstance(field, list):
        return [Request(**one) for one in field]
    return Request(**field) if isinstance(field, dict) and "url" in field else field


CASES = [(form, name) for form, messages in WRITTEN.items() for name in messages]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_a_message_of_frontera_is_read(form: str, name: str) -> None:
    codec, data = Codec(form), b64decode(WRITTEN[form][name])
    read = codec.decode_request(data) if name.startswith("request ") else codec.decode(data)
    assert read == expected(form, name)


@pytest.mark.parametrize(("form", "name"), CASES)
def test_it_is_written_as_frontera_does(form: str, name: str) -> None:
    codec = Codec(form, send_body="body" in name)
    assert codec.encode(expected(form, name)) == b64decode(WRITTEN[form][name])


def test_every_sample_is_there_in_both_forms() -> None:
    assert {form: set(messages) for form, messages in WRITTEN.items()} == {
        "msgpack": set(SAMPLES),
        "json": set(SAMPLES),
    }
