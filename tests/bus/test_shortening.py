"""Shortened results: what they keep is what their leases need."""

from __future__ import annotations

import pytest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs import codec as codecs
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.messages import LinksExtracted, Message, PageCrawled, Request, RequestError, Response
from budgetfrontier.bus.shortening import encoded_short, shortened, shortened_bytes
from budgetfrontier.bus.workers.results import ending_of

LEASE = {request_meta.LEASE: 7, request_meta.FRONTIER: b"f", request_meta.JOB: 1, request_meta.FETCH_SECONDS: 0.5}
REQUEST = Request("http://a.test/", b"POST", {b"X": [b"y"]}, {}, {**LEASE, b"mine": "m" * 5000})
PAGE = PageCrawled(Response("http://a.test/", 503, {b"H": [b"h"]}, b"b" * 9000, REQUEST))


def test_content_goes_first_and_then_what_no_lease_needs() -> None:
    once = shortened(PAGE)
    assert isinstance(once, PageCrawled) and once.response.body is None and not once.response.headers
    assert once.response.meta == {**REQUEST.meta, request_meta.SIZE: 9000}
    twice = shortened(once)
    assert isinstance(twice, PageCrawled) and twice.response.meta == {**LEASE, request_meta.SIZE: 9000}
    assert shortened(twice) is None and shortened(LinksExtracted(REQUEST, [REQUEST])) is None
    short, long = (ending_of(each, 7, retries=True) for each in (twice, PAGE))
    assert (short.outcome, short.size, short.fetch_seconds) == (long.outcome, long.size, long.fetch_seconds)
    failed = shortened(RequestError(REQUEST, "e" * 5000))
    assert isinstance(failed, RequestError) and failed.request.meta == LEASE and failed.error == "e" * 1000
    assert shortened(failed) is None


@pytest.mark.parametrize("message", [PAGE, RequestError(REQUEST, "x")])
def test_a_result_is_shortened_until_it_can_be_sent(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Codec(send_body=True)
    data = codec.encode(message)
    assert shortened_bytes(data, codec) is not None and shortened_bytes(b"no message", codec) is None
    monkeypatch.setattr(codecs, "MAX_SIZE", 400)
    short = encoded_short(message, codec)
    assert short is not None and len(short) < 400 and b"lease" in short
    monkeypatch.setattr(codecs, "MAX_SIZE", 10)
    assert encoded_short(message, codec) is None
